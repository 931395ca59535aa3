import { useMemo, useState } from "react";
import { useAnswer } from "../../data/use-answer";
import { FailureNote } from "../../ui/failure-note";
import { Graph } from "../../ui/graph";
import { Skeletons } from "../../ui/page";
import { GRANTS, roleGraphOf } from "./matrix";

/** The roles as a graph: an edge leads from a role to one that has it, and so has its privileges too. */
export function RoleGraph() {
  const { data, failure } = useAnswer(GRANTS);
  const [selected, setSelected] = useState<string | null>(null);
  const graph = useMemo(() => (data === null ? null : roleGraphOf(data)), [data]);
  if (graph === null) return failure === null ? <Skeletons /> : <FailureNote failure={failure} />;
  return (
    <>
      <p className="note about">
        An arrow leads from a role to a role that it is granted to, which has its privileges too. The number
        is that of the privileges granted to the role itself that your role may see.
      </p>
      <div className="graph-frame roles-frame">
        <Graph
          label="Roles"
          nodes={graph.nodes.map(({ role, privileges, users }) => ({
            id: role,
            kind: "relation",
            kindLabel: users === 0 ? "role" : `role of ${users} ${users === 1 ? "user" : "users"}`,
            icon: "access",
            title: role,
            note: `${privileges} ${privileges === 1 ? "privilege" : "privileges"}`,
          }))}
          edges={graph.edges}
          selected={selected}
          onSelect={setSelected}
        />
      </div>
    </>
  );
}
