import { Icon } from "./icons";

interface SearchBoxProps {
  /** The purpose of the field, for those who do not see its place. */
  readonly label: string;
  readonly placeholder: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** A field whose text filters what is shown beside it. */
export function SearchBox({ label, placeholder, value, onChange }: SearchBoxProps) {
  return (
    <label className="search-box">
      <Icon name="search" />
      <span className="hidden">{label}</span>
      <input
        type="search"
        placeholder={placeholder}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
    </label>
  );
}
