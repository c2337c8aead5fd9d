/* Overview: cards, sentences and a table; the small loss lines are drawn here. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const SVG = "http://www.w3.org/2000/svg";
  const [WIDTH, HEIGHT] = [150, 26];

  ds.definePage("overview", {
    questions: (view, common) => {
      const asked = { runs: common.runs, base: view.base };
      return { cards: asked, sentences: asked, summary: { ...asked, sort: view.sort } };
    },
    arrived: (panel) => { if (panel === "cards") window.requestAnimationFrame(sparks); },
  });

  /** Draw each card's loss from its first tenth on: the steep beginning would press the rest flat. */
  const sparks = () => {
    for (const span of document.querySelectorAll(".spark")) {
      const values = (span.dataset.values || "").split(" ").filter(Boolean).map(Number);
      const kept = values.slice(Math.floor(values.length / 10));
      const [low, high] = [Math.min(...kept), Math.max(...kept)];
      const points = kept.map((value, i) =>
        `${((i / Math.max(kept.length - 1, 1)) * WIDTH).toFixed(1)},${(HEIGHT - 2 - ((value - low) / (high - low || 1)) * (HEIGHT - 4)).toFixed(1)}`);
      const line = document.createElementNS(SVG, "polyline");
      line.setAttribute("points", points.join(" "));
      line.style.stroke = ds.colour(Number(span.dataset.slot));
      const picture = document.createElementNS(SVG, "svg");
      for (const [name, value] of Object.entries({ width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" }))
        picture.setAttribute(name, String(value));
      picture.append(line);
      ds.fill(span, kept.length > 1 ? [picture] : []);
    }
  };
})();
