/* Run: what the focused run is, holds and lacks. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});

  ds.definePage("run", {
    questions: (view, common) => {
      const asked = { runs: view.focus ? [view.focus] : common.runs, shown: view.focus };
      return { about: asked, recorded: asked, sites: asked, config: asked, missing: asked };
    },
  });
})();
