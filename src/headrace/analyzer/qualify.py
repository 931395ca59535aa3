"""QUALIFY: a condition on the results of window functions, as WHERE of an outer SELECT."""

from __future__ import annotations

from sqlglot import exp

from headrace.core.internal_columns import PREFIX

_OUTER = ("distinct", "order", "limit", "offset")
"""The clauses that come after QUALIFY."""


def outer_select(node: exp.Select) -> exp.Select:
    """Return a SELECT with QUALIFY as `SELECT * FROM (SELECT items, what the condition reads …) WHERE condition`.

    What is no item of the SELECT is a column with an internal name, which `*` leaves out.
    """
    inner = node.copy()
    condition = inner.args["qualify"].this
    inner.set("qualify", None)
    names = {item.alias_or_name for item in inner.expressions if isinstance(item, exp.Alias | exp.Column)}
    hidden: list[exp.Expr] = []

    def named(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and len(part.parts) == 1 and part.name in names:
            return part
        if isinstance(part, exp.Column | exp.Window):
            name = f"{PREFIX}qualify_{len(hidden) + 1}"
            hidden.append(exp.Alias(this=part.copy(), alias=exp.Identifier(this=name)))
            column = exp.Column(this=exp.Identifier(this=name))
            column.meta.update(part.meta)
            return column
        if not isinstance(part, exp.Query):
            for child in list(part.iter_expressions()):
                child.replace(named(child))
        return part

    condition = named(condition)
    inner.set("expressions", [*inner.expressions, *hidden])
    outer = exp.Select(
        expressions=[exp.Star()],
        from_=exp.From(this=exp.Subquery(this=inner)),
        where=exp.Where(this=condition),
        **{clause: inner.args.get(clause) for clause in _OUTER},
    )
    for clause in _OUTER:
        inner.set(clause, None)
    return outer
