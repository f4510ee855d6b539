// The selector of versions: versions.js, beside the directories of the versions, sets iobindVersions.
(() => {
  const versions = window.iobindVersions || [];
  for (const select of document.querySelectorAll(".versions select")) {
    for (const version of versions) {
      const option = new Option(version, version, false, version === select.dataset.version);
      select.add(option);
    }
    select.closest("label").hidden = versions.length === 0;
    select.addEventListener("change", () => {
      location.href = `${select.dataset.root}../${select.value}/index.html`;
    });
  }
})();

// The theme's buttons that unfold a part of the contents have an icon and no name.
for (const button of document.querySelectorAll("summary:has(.toctree-toggle)")) {
  button.setAttribute("aria-label", `Pages below ${button.closest("li").querySelector("a").textContent.trim()}`);
}
