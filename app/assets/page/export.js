/* Export: the page's figure, drawn on the server as `depthscope export` draws it, saved by the browser. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const NO_FIGURE = ["overview", "run"];
  let count = 0;

  ds.canExport = () => !NO_FIGURE.includes(ds.page) && ds.resolve().able.length > 0;

  ds.saveExport = () => {
    const view = ds.resolve();
    const { base, focus, metric, mode, scale, range, align, targets, weights, pins, top, threshold, distance, against, cut, exported, form, width } = view;
    const chosen = view.page === "attention" && view.able.some((run) => run.id === view.only) ? [view.only] : view.able.map((run) => run.id);
    window.dash_clientside.set_props("ask-export", { data: {
      page: view.page, runs: chosen, step: view.following ? null : view.shownStep, base, focus, metric, mode, scale, range,
      align, targets, weights, pins, top, threshold, distance, against, cut, exported, form, width, count: (count += 1),
    } });
    document.getElementById("export").close();
  };

  ds.onChange(() => {
    const button = document.getElementById("export-button");
    if (!button) return;
    const able = ds.canExport();
    button.setAttribute("aria-disabled", able ? "false" : "true");
    button.title = able ? "Save this page's figure (e)" : "This page has no figure to export";
  });
})();
