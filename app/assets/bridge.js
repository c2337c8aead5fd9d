/* Between Dash and the page: clientside callbacks, each of one line. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const nothing = () => window.dash_clientside.no_update;
  const arrived = (panel) => (figure) => {
    ds.answered(panel, figure?.layout?.meta?.asked);
    if (panel === "profile" && figure?.layout?.meta?.missing) {
      ds.missing = figure.layout.meta.missing;
      ds.allowLog(!figure.layout.meta.signed);
      ds.tell();
    }
    ds.follow(panel);
    return nothing();
  };

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.depthscope = {
    catalogue: (data) => { ds.arrived(data); return nothing(); },
    timeline: (data) => {
      ds.answered("timeline", data?.asked);
      ds.timelines = data?.runs || {};
      ds.tell();
      return nothing();
    },
    findings: (data) => { ds.answered("findings", data?.asked); window.requestAnimationFrame(ds.showFinding); return nothing(); },
    profile: arrived("profile"),
    gradient: arrived("gradient"),
    loss: arrived("loss"),
    maps: arrived("maps"),
  };
})();
