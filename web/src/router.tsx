/** The addresses of the console. Each page is a chunk of its own; `PAGES` in server/web.py lists the first segments. */

import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  type RouteComponent,
} from "@tanstack/react-router";
import { Frame } from "./frame";
import { parseSearch, stringifySearch, texts } from "./search";
import { PageFailure, PageLoading } from "./ui/page";

const root = createRootRoute({ component: Frame, notFoundComponent: NotFound });

/** The frame keeps the workspace mounted, and shows it at these two addresses. */
const home = createRoute({ getParentRoute: () => root, path: "/", component: Nothing });
const sql = createRoute({ getParentRoute: () => root, path: "/sql", component: Nothing });

export interface QueriesSearch {
  readonly text?: string;
  readonly state?: string;
  readonly pool?: string;
  readonly owner?: string;
  readonly sort?: string;
  readonly ended?: boolean;
}

const queries = createRoute({
  getParentRoute: () => root,
  path: "/queries",
  validateSearch: (search: Record<string, unknown>): QueriesSearch => ({
    ...texts(search, ["text", "state", "pool", "owner", "sort"]),
    ...(String(search.ended) === "true" ? { ended: true } : {}),
  }),
  component: lazyRouteComponent(() => import("./features/queries/query-list-page"), "QueryListPage"),
});

const query = createRoute({
  getParentRoute: () => root,
  path: "/queries/$id",
  validateSearch: (search: Record<string, unknown>): { readonly tab?: string; readonly range?: string } =>
    texts(search, ["tab", "range"]),
  component: lazyRouteComponent(() => import("./features/queries/query-page"), "QueryPage"),
});

const lineage = createRoute({
  getParentRoute: () => root,
  path: "/lineage",
  validateSearch: (search: Record<string, unknown>) => texts(search, ["text", "node", "focus", "way"]),
  component: lazyRouteComponent(() => import("./features/lineage/lineage-page"), "LineagePage"),
});

const catalog = createRoute({
  getParentRoute: () => root,
  path: "/catalog",
  validateSearch: (search: Record<string, unknown>) => texts(search, ["text", "type"]),
  component: lazyRouteComponent(() => import("./features/catalog/catalog-page"), "CatalogPage"),
});

const relation = createRoute({
  getParentRoute: () => root,
  path: "/catalog/$database/$schema/$relation",
  validateSearch: (search: Record<string, unknown>) => texts(search, ["tab"]),
  component: lazyRouteComponent(() => import("./features/catalog/relation-page"), "RelationPage"),
});

const stores = createRoute({
  getParentRoute: () => root,
  path: "/stores",
  component: lazyRouteComponent(() => import("./features/stores/store-list-page"), "StoreListPage"),
});

const store = createRoute({
  getParentRoute: () => root,
  path: "/stores/$store",
  validateSearch: (search: Record<string, unknown>) => texts(search, ["entity"]),
  component: lazyRouteComponent(() => import("./features/stores/store-page"), "StorePage"),
});

const access = createRoute({
  getParentRoute: () => root,
  path: "/access",
  validateSearch: (search: Record<string, unknown>) => texts(search, ["tab", "text", "sort", "object"]),
  component: lazyRouteComponent(() => import("./features/access/access-page"), "AccessPage"),
});

const resources = createRoute({
  getParentRoute: () => root,
  path: "/resources",
  validateSearch: (search: Record<string, unknown>) => texts(search, ["tab", "text", "sort"]),
  component: lazyRouteComponent(() => import("./features/resources/resources-page"), "ResourcesPage"),
});

const graphiql = createRoute({
  getParentRoute: () => root,
  path: "/graphiql",
  component: lazyRouteComponent(() => import("./features/graphiql/graphiql-page"), "GraphiqlPage"),
});

export const router = createRouter({
  routeTree: root.addChildren([
    home,
    sql,
    queries,
    query,
    lineage,
    catalog,
    relation,
    stores,
    store,
    access,
    resources,
    graphiql,
  ]),
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
  defaultPendingComponent: PageLoading as RouteComponent,
  defaultErrorComponent: PageFailure,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

function Nothing() {
  return null;
}

function NotFound() {
  return <PageFailure error={new Error("There is no page at this address.")} />;
}
