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
