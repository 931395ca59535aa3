// Before the scripts of the search, which read it.
var base_url = document.documentElement.dataset.base;

document.addEventListener("DOMContentLoaded", () => {
  const query = document.getElementById("mkdocs-search-query");
  const results = document.getElementById("mkdocs-search-results");
  document.querySelector("form[role=search]").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== query) {
      event.preventDefault();
      query.focus();
    } else if (event.key === "Escape") {
      query.value = "";
      results.replaceChildren();
    }
  });
});
