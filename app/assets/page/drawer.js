/* The run drawer: the legend of every chart. Rows are kept and updated, so focus stays where it is. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const { make, fill } = ds;
  let search = "";

  const button = (action, run, attributes, ...children) =>
    make("button", { type: "button", "data-action": action, "data-run": run.id, ...attributes }, ...children);

  /** What tells runs of one name apart, in brackets at the end, stays in one piece where a line breaks. */
  const nameParts = (name) => {
    const [, own, apart] = /^(.+ )(\([^()]{1,14}\))$/.exec(name) || [];
    return own ? [own, make("span", { class: "whole" }, apart)] : [name];
  };

  const row = (run, view) => {
    const selected = view.runs.some((entry) => entry.id === run.id);
    const isBase = view.base === run.id;
    const isFocus = view.focus === run.id && selected;
    const check = button("toggle-run", run, {
      class: "run-check", role: "checkbox", "aria-checked": selected ? "true" : "false",
      "aria-label": `Show ${run.name}`, disabled: Boolean(run.problem), style: { "--run": ds.colour(run.slot) },
    }, ds.icon("check"));
    const star = run.problem ? null : button("base-run", run, {
      class: "run-star", "aria-pressed": isBase ? "true" : "false",
      "aria-label": isBase ? `${run.name} is the baseline` : `Make ${run.name} the baseline`, title: "Baseline",
    }, ds.icon(isBase ? "star" : "star-outline"));
    const name = run.problem
      ? make("span", { class: "run-name" }, run.name)
      : button("focus-run", run, { class: "run-name", title: run.name, "aria-current": isFocus ? "true" : null }, ...nameParts(run.name));
    const status = make("span", { class: `status status-${run.status}` }, make("span", { class: "dot" }), run.status);
    const lacks = run.lacks?.[view.page] || (view.page === "depth" ? ds.missing[run.id] : "");
    const right = run.problem || lacks || run.kind;
    const classes = ["run", selected ? "selected" : "", run.lacks?.[view.page] ? "lacking" : "", isFocus ? "focused" : "", run.problem ? "broken" : ""];
    return make("li", { class: classes.filter(Boolean).join(" "), "data-row": run.id, title: run.problem || null },
      check, make("span", { class: "run-title" }, name, star),
      make("span", { class: "run-step" }, run.last_step === null ? "" : ds.count(run.last_step)),
      ds.lineSample(run), status, make("span", { class: "run-kind" }, right));
  };

  /** What a run lacks of the quantity shown, in three or four words; set when a figure arrives. */
  ds.missing = {};

  const draw = (view) => {
    const list = document.getElementById("runs");
    if (!list) return;
    const wanted = ds.catalogue.runs.filter((run) => run.name.toLowerCase().includes(search));
    const focused = document.activeElement?.closest?.("[data-action]");
    const place = focused && list.contains(focused) ? [focused.dataset.action, focused.dataset.run] : null;
    fill(list, wanted.map((run) => row(run, view)));
    if (place && !list.contains(document.activeElement))
      list.querySelector(`[data-action="${place[0]}"][data-run="${place[1]}"]`)?.focus();
    const all = ds.catalogue.runs.length;
    const found = search ? `${wanted.length} of ${all} runs` : `${all} ${all === 1 ? "run" : "runs"}`;
    const shown = view.able.length < view.runs.length ? `${view.able.length} shown here` : `${view.runs.length} selected`;
    // Nobody chose these: the page opens with the newest few, and says that there are more.
    const chosen = view.left && !search && view.able.length === view.runs.length;
    const count = document.getElementById("runs-count");
    count.textContent = chosen ? `${view.runs.length} of ${all} shown; select more` : `${found}, ${shown}`;
    count.title = chosen ? `The page opens with the newest ${view.runs.length} runs` : "";
  };
  ds.onChange(draw);

  document.addEventListener("input", (event) => {
    if (event.target.id !== "search") return;
    search = event.target.value.trim().toLowerCase();
    draw(ds.resolve());
  });

  ds.clearSearch = () => {
    ds.typeInto("search", "");
  };

  // Hovering a run lifts its lines in every chart: the rest fade.
  const lift = (id) => {
    for (const trace of document.querySelectorAll(".scatterlayer .trace")) {
      const meta = trace.__data__?.[0]?.trace?.meta || {};
      trace.style.opacity = id && meta.run && meta.run !== id ? "0.35" : "";
    }
  };
  document.addEventListener("mouseover", (event) => {
    const hovered = event.target.closest?.("[data-row]");
    lift(hovered?.classList.contains("selected") ? hovered.dataset.row : null);
  });

  ds.toggleRun = (id) => {
    const view = ds.resolve();
    const held = view.runs.map((run) => run.id);
    const next = held.includes(id) ? held.filter((run) => run !== id) : [...held, id];
    const ordered = ds.catalogue.runs.map((run) => run.id).filter((run) => next.includes(run));
    ds.change({ runs: ordered, focus: next.includes(id) ? id : ds.state.focus });
  };
})();
