import { Link, useLocation } from "@tanstack/react-router";
import { Icon } from "../../ui/icons";
import { isAt, type NavigationPage } from "./pages";

/** The pages: a rail beside the content, and below it in a narrow window. */
export function Navigation({ pages }: { readonly pages: readonly NavigationPage[] }) {
  const { pathname } = useLocation();
  return (
    <nav className="rail" aria-label="Pages">
      <ul>
        {pages.map(({ to, name, icon, key }) => (
          <li key={to}>
            <Link
              to={to}
              className="rail-link"
              title={`${name} (g ${key})`}
              aria-current={isAt(to, pathname) ? "page" : undefined}
            >
              <Icon name={icon} />
              <span>{name}</span>
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}
