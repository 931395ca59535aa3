import { Link, useLocation } from "@tanstack/react-router";
import { Icon } from "../../ui/icons";
import { isAt, PAGES } from "./pages";

/** The pages: a rail beside the content, and below it in a narrow window. */
export function Navigation() {
  const { pathname } = useLocation();
  return (
    <nav className="rail" aria-label="Pages">
      <ul>
        {PAGES.map(({ to, name, icon, key }) => (
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
