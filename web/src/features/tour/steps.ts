/** The steps of the first-run tour: from an empty server to a chart, with generated rows and no other system. */

export interface TourStep {
  readonly title: string;
  readonly text: string;
  /** Run by the step's button, in the workspace; null for a step that only explains. */
  readonly statement: string | null;
  /** The page that shows the result of the step; null for the workspace. */
  readonly page: { readonly to: "/queries" | "/lineage"; readonly name: string } | null;
}

export const STEPS: readonly TourStep[] = [
  {
    title: "Create a store",
    text: "A store is a connection to a system with data, such as a Kafka cluster. This one generates rows, so that nothing else is needed.",
    statement: "CREATE STORE IF NOT EXISTS tour WITH ('type' = GENERATOR);",
    page: null,
  },
  {
    title: "Create a database",
    text: "Databases and schemas hold relations. The schema public is there at once.",
    statement: "CREATE DATABASE IF NOT EXISTS tour;",
    page: null,
  },
  {
    title: "Create a stream",
    text: "A stream has names and types for the values in the records of a store. The column at is its event time.",
    statement: `CREATE STREAM IF NOT EXISTS tour.public.pageviews (at TIMESTAMP_LTZ(3), userid VARCHAR, page VARCHAR, millis INTEGER) WITH (
  'store' = 'tour', 'timestamp' = 'at', 'generator.rows.per.second' = 20,
  'generator.columns.userid' = 'zipf(100)',
  'generator.columns.page' = 'values(''/'': 5, ''/cart'': 2, ''/pay'')',
  'generator.columns.millis' = 'uniform(1, 2000)'
);`,
    page: null,
  },
  {
    title: "Read live rows",
    text: "A SELECT of a stream does not end: rows appear as they are generated, until you press Stop or Esc. The first query starts Spark, which takes some seconds.",
    statement: "SELECT * FROM tour.public.pageviews;",
    page: null,
  },
  {
    title: "Keep an answer up to date",
    text: "A materialized view is written by a continuous query, which runs until you terminate it.",
    statement: `CREATE MATERIALIZED VIEW tour.public.pages AS
SELECT page, COUNT(*) AS views, AVG(millis) AS millis FROM tour.public.pageviews GROUP BY page;`,
    page: null,
  },
  {
    title: "Ask the view",
    text: "A SELECT of a view returns its rows and ends. Press Chart above the rows for bars; run the step again to see the numbers grow.",
    statement: "SELECT * FROM tour.public.pages ORDER BY views DESC;",
    page: null,
  },
  {
    title: "Watch the query",
    text: "The page of a query shows its rates, its lag, its plan, and in words why it has no output.",
    statement: null,
    page: { to: "/queries", name: "Queries" },
  },
  {
    title: "See where data comes from",
    text: "The lineage shows what each query reads and writes, and what depends on it. To remove the tour, drop what it created.",
    statement: "DROP DATABASE tour CASCADE;",
    page: { to: "/lineage", name: "Lineage" },
  },
];

const SEEN_KEY = "headrace.tour.seen";

/** True if this browser's user has closed the tour before. */
export function isTourSeen(): boolean {
  return localStorage.getItem(SEEN_KEY) !== null;
}

export function markTourSeen(): void {
  localStorage.setItem(SEEN_KEY, "1");
}
