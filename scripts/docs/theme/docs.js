// Before the scripts of the search, which read it.
var base_url = document.documentElement.dataset.base;

document.addEventListener("DOMContentLoaded", () => {
  const query = document.getElementById("mkdocs-search-query");
  const results = document.getElementById("mkdocs-search-results");
  searchWorker.addEventListener("message", (event) => {
    // What was typed while the index was loaded.
    if (event.data.allowSearch && query.value) query.dispatchEvent(new KeyboardEvent("keyup"));
  });
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
