/* Lens: what its panels ask, what lies over their plots, what hovering says. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const { make, px } = ds;
  const LINES = ["kl", "agreement", "influence", "attribution"];
  const OTHERS = [...LINES.slice(1), "cka", "tokens"];

  ds.definePage("lens", {
    questions: (view, common) => {
      const runs = (view.able.length ? view.able : view.runs).map((run) => run.id);
      const asked = { ...common, runs, step: ds.measuredStep(view, "lens"), focus: view.focus };
      const followed = view.able.find((run) => run.id === view.focus) ?? view.able[0];
      const one = { ...common, runs: followed ? [followed.id] : [], shown: followed?.id ?? null, step: asked.step };
      if (view.runs.length && !view.able.length) return { "lens-kl": asked };   // it says why, for all
      return { "lens-kl": { ...asked, scale: view.scale }, ...Object.fromEntries(OTHERS.map((show) => [`lens-${show}`, show === "tokens" ? one : asked])) };
    },
  });
  ds.onChange((view) => {
    if (view.page !== "lens") return;
    const none = view.runs.length > 0 && !view.able.length;
    document.getElementById("lens-panels").classList.toggle("none", none);
    for (const show of OTHERS) document.getElementById(`panel-lens-${show}`).hidden = none;
  });

  for (const show of LINES.slice(1)) ds.paint(`lens-${show}`, ds.endLabels, { onState: false });
  ds.paint("lens-kl", (gd, view) => {
    const words = ds.measuredElsewhere(view, Object.values(gd.layout.meta.runs).map((run) => run.step));
    const line = words ? [make("span", { class: "elsewhere", style: { left: px(gd._fullLayout._size.l), top: px(0) } }, words)] : [];
    return [...line, ...ds.endLabels(gd)];
  });
  ds.paint("lens-cka", (gd) => gd.layout.meta.titles.map((entry) => {
    const xaxis = gd._fullLayout[`xaxis${entry.axis}`];
    return make("span", { class: "map-title", style: { left: px(xaxis._offset), "max-width": px(xaxis._length) } },
      make("span", { class: "end-dash", style: { background: ds.colour(entry.slot) } }), make("span", { class: "end-name" }, entry.name));
  }), { onState: false });

  ds.onHover("lens-tokens", (point, meta) => {
    const when = meta.step === null ? "" : `, step ${ds.count(meta.step)}`;
    return [ds.threeDigits(point.z), `${ds.nameOf(point.data.meta.run)}, nats`, `token ${ds.count(point.x)}, ${after(meta.names[point.y])}`, `likeliest there: token id ${point.customdata}${when}`];
  });
  const after = (name) => (name === "embedding" ? "the embedding" : `the state after ${name}`);
  const SAID = {
    kl: (name) => `KL of the output from ${after(name)}, nats a token`,
    agreement: (name) => `of the output's likeliest tokens are those of ${after(name)}`,
    influence: (name) => `1 − cosine of what transformer ${name} reads and the next`,
    attribution: (name) => `${name === "constant" ? "biases" : name}: added to the logit of the right token`,
  };
  ds.onHover("lens", (point, meta) => {
    const run = point.data.meta?.run;
    const entry = meta.runs[run];
    if (!entry) return null;
    const when = entry.step === null ? "" : `step ${ds.count(entry.step)}`;
    if (meta.show === "cka") return [ds.threeDigits(point.z), ds.nameOf(run), `CKA of ${entry.names[point.y]} and ${entry.names[point.x]}`, when];
    const place = point.data.meta.first + point.pointNumber;
    const half = entry.interval[place];
    const value = `${ds.threeDigits(point.y)}${half === null ? "" : ` ± ${ds.threeDigits(half)}`}`;
    return [value, ds.nameOf(run), SAID[meta.show](entry.names[place]), when];
  });
})();
