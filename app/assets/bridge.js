/* Between Dash and the page: clientside callbacks, each of one line. An answer's mark says whose it is. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const nothing = () => window.dash_clientside.no_update;

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.depthscope = {
    catalogue: (data) => { ds.arrived(data); return nothing(); },
    timeline: (data) => {
      ds.answered("timeline", data?.asked);
      ds.timelines = data?.runs || {};
      ds.tell();
      return nothing();
    },
    tabled: (data) => { ds.showRows(data); return nothing(); },
    // Rows came: of a table, or of the findings line.
    marked: (data) => {
      const mark = data?.asked;
      if (!mark?.panel) return nothing();
      ds.answered(mark.panel, mark);
      ds.pages[ds.pageOf(mark.panel)]?.arrived?.(mark.panel, {});
      if (mark.panel === "findings") window.requestAnimationFrame(() => ds.showFinding());
      return nothing();
    },
  };
})();
