/* Hover text and clicks on the plots. The text is built as text nodes: value, run, sublayer, step. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const { make } = ds;

  const threeDigits = (value) => {
    if (Number.isNaN(value)) return "NaN";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    const size = Math.abs(value);
    const text = value !== 0 && (size < 1e-4 || size >= 1e6)
      ? value.toExponential(2).replace("e+", "e")
      : String(Number(value.toPrecision(3)).toPrecision(size >= 100 ? undefined : 3));
    return text.replaceAll("-", "−");
  };
  ds.threeDigits = threeDigits;

  const nameOf = (id) => ds.catalogue.runs.find((run) => run.id === id)?.name || "";

  const place = (meta, run, layer) => {
    const entry = (meta.layers || {})[run];
    if (!entry) return "";
    const kind = { mlp: "MLP", attention: "attention" }[entry.kinds[layer - 1]] || "other";
    const block = new Set(entry.blocks).size > 1 ? `, block ${entry.blocks[layer - 1]}` : "";
    return `sublayer ${layer}, ${kind}${block}`;
  };

  // A page says what hovering its figures tells: four lines of text, for each kind of figure (`meta.panel`).
  const tellers = {};
  const clicks = {};
  ds.onHover = (kind, describe) => { tellers[kind] = describe; };
  ds.onClick = (panel, act) => { clicks[panel] = act; };
  ds.nameOf = nameOf;

  const describe = (gd, point) => {
    const meta = gd.layout.meta;
    if (tellers[meta.panel]) return tellers[meta.panel](point, meta);
    const { run, role, step, kind, text } = point.data.meta || {};
    if (role === "reference") return [threeDigits(point.y), text, "equal uncorrelated writes", ""];
    if (role === "map") {
      const value = meta.log ? 10 ** point.z : point.z;
      return [threeDigits(value), nameOf(run), place(meta, run, point.y), `step ${ds.count(ds.stepUnder(run, point))}`];
    }
    if (meta.panel === "loss") return [threeDigits(point.y), nameOf(run), "", `step ${ds.count(point.x)}`];
    const layer = role === "mark" ? Math.round(point.x) : point.pointIndex + 1;
    return [role === "mark" ? kind : threeDigits(point.y), nameOf(run), place(meta, run, layer), `step ${ds.count(step)}`];
  };

  /** The recorded step of a run that a point of its map stands for. */
  ds.stepUnder = (run, point) => ds.nearestStep([{ id: run }], point.x) ?? Math.round(point.x);

  const show = (gd, event) => {
    const said = describe(gd, event.points[0]);
    if (!said) return;
    const [value, run, where, when] = said;
    const tip = document.getElementById("tooltip");
    tip.replaceChildren(make("div", {}, make("strong", {}, value), ` ${run}`), ...[where, when].filter(Boolean).map((line) => make("div", {}, line)));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const { clientX, clientY } = event.event;
    const right = clientX + 14 + box.width < window.innerWidth;
    tip.style.left = `${right ? clientX + 14 : clientX - 14 - box.width}px`;
    tip.style.top = `${Math.min(Math.max(clientY - box.height / 2, 4), window.innerHeight - box.height - 4)}px`;
  };
  const hide = () => { document.getElementById("tooltip").hidden = true; };

  ds.listen = (panel, gd) => {
    // What the first click of a double click chose, which the second takes back. The browser counts the clicks of
    // one gesture by the moments they were made at (`detail`); plotly by those at which a busy page hears of them.
    let before = null;
    gd.addEventListener("mousedown", (event) => { if (event.detail < 2) before = null; }, true);
    gd.addEventListener("click", (event) => {
      if (event.detail !== 2) return;
      if (before) ds.change(before);
      before = null;
      ds.unzoom(panel, gd);
    }, true);
    gd.addEventListener("mouseleave", hide);
    gd.on("plotly_hover", (event) => show(gd, event));
    gd.on("plotly_unhover", hide);
    gd.on("plotly_relayout", (event) => ds.zoomed(panel, gd, event));
    gd.on("plotly_click", (event) => {
      if (!event.points.length || event.event.detail > 1) return;
      before = { ...ds.state };
      clicks[panel]?.(event.points[0]);
    });
  };
})();
