import { useMemo, useState } from "react";
import { useAnswer } from "../../data/use-answer";
import { countText } from "../../grid/values";
import { Graph } from "../../ui/graph";
import { Loaded } from "../../ui/loaded";
import { GRANTS, roleGraphOf } from "./matrix";

/** The roles as a graph: an edge leads from a role to one that has it, and so has its privileges too. */
export function RoleGraph() {
  const { data, failure } = useAnswer(GRANTS);
  const [selected, setSelected] = useState<string | null>(null);
  const graph = useMemo(() => (data === null ? null : roleGraphOf(data)), [data]);
  return (
    <Loaded data={graph} failure={failure}>
      {({ nodes, edges }) => (
        <>
          <p className="note about">
            An arrow leads from a role to a role that it is granted to, which has its privileges too. The
            number is that of the privileges granted to the role itself that your role may see.
          </p>
          <div className="graph-frame roles-frame">
            <Graph
              label="Roles"
              nodes={nodes.map(({ role, privileges, users }) => ({
                id: role,
                kind: "relation",
                kindLabel: users === 0 ? "role" : `role of ${countText(users, "user")}`,
                icon: "access",
                title: role,
                note: countText(privileges, "privilege"),
              }))}
              edges={edges}
              selected={selected}
              onSelect={setSelected}
            />
          </div>
        </>
      )}
    </Loaded>
  );
}
