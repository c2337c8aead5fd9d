/* The page's state: read once from the address, changed in one place, written back with replaceState. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});

  ds.state = {
    runs: null,      // ids; null: the newest four
    base: null,      // id; null: the first selected run
    focus: null,     // id; null: the baseline
    metric: "state_logrms",
    mode: "absolute",
    scale: "log",
    range: "shared",
    step: null,      // null: the newest, and on with it
    pins: [],
    align: "step",
    targets: "together",   // depth attention: which targets, and what of their weights
    weights: "mean",
    only: "all",           // id of the one run whose maps are shown
    cell: null,            // "run:target:source", followed over steps
    top: "12",             // skip paths: most of a run, least weight in per cent, least distance
    threshold: "0",
    distance: "2",
    form: "pdf",           // what Export saves, and how wide
    width: "column",
    sort: "",              // overview: column of the table, with a minus for largest first
  };
  ds.page = null;          // name of the page shown; null: the first
  ds.catalogue = { runs: [] };
  const listeners = [];
  const AUTOMATIC_RUNS = 4;
  const CHOICES = {
    mode: ["absolute", "ratio", "fresh", "write", "difference"],
    scale: ["log", "linear"],
    range: ["shared", "full", "own"],
    align: ["step", "tokens", "loss"],
    targets: ["together", "attention", "mlp"],
    weights: ["mean", "spread", "uniform", "local", "difference"],
  };
  // Of one page only: they are in the address when they differ from how the page opens.
  const OF_A_PAGE = { targets: "together", weights: "mean", only: "all", cell: null, top: "12", threshold: "0", distance: "2", sort: "" };

  const integer = (text) => (/^\d{1,15}$/.test(text) ? Number(text) : null);

  ds.readAddress = () => {
    const given = new URLSearchParams(window.location.search);
    for (const [name, values] of Object.entries(CHOICES))
      if (values.includes(given.get(name))) ds.state[name] = given.get(name);
    for (const name of ["only", "cell", "sort"]) if (given.get(name)) ds.state[name] = given.get(name);
    for (const name of ["top", "threshold", "distance"]) if (integer(given.get(name) ?? "") !== null) ds.state[name] = given.get(name);
    ds.page = (tabs().find((tab) => tab.pathname === window.location.pathname) || tabs()[0]).dataset.page;
    if (given.get("metric")) ds.state.metric = given.get("metric");
    if (given.has("runs")) ds.state.runs = given.get("runs").split(",").filter(Boolean);
    if (given.get("base")) ds.state.base = given.get("base");
    if (given.get("focus")) ds.state.focus = given.get("focus");
    if (given.get("step")) ds.state.step = integer(given.get("step"));
    if (given.get("pins")) ds.state.pins = given.get("pins").split(",").map(integer).filter((pin) => pin !== null);
  };

  const tabs = () => [...document.querySelectorAll(".page-tab")];

  const address = () => {
    const state = ds.state;
    const parts = [];
    const put = (name, value) => parts.push(`${name}=${encodeURIComponent(value).replaceAll("%2C", ",").replaceAll("%3A", ":")}`);
    if (state.runs) put("runs", state.runs.join(","));
    if (state.base) put("base", state.base);
    if (state.focus) put("focus", state.focus);
    put("metric", state.metric);
    put("mode", state.mode);
    if (state.step !== null) put("step", state.step);
    if (state.pins.length) put("pins", state.pins.join(","));
    for (const name of ["scale", "range", "align"]) put(name, state[name]);
    for (const [name, opening] of Object.entries(OF_A_PAGE)) if (state[name] !== opening) put(name, state[name]);
    const page = tabs().find((tab) => tab.dataset.page === ds.page)?.pathname || window.location.pathname;
    return `${page}?${parts.join("&")}`;
  };

  /** Change the state; everything that shows it is told once. */
  ds.change = (values) => {
    Object.assign(ds.state, values);
    window.history.replaceState(null, "", address());
    ds.tell();
  };

  /** Go to another page: the state goes with it, and the browser's back button returns. */
  ds.goToPage = (name, values = {}) => {
    if (!tabs().some((tab) => tab.dataset.page === name)) return;
    Object.assign(ds.state, values);
    const other = ds.page !== name;
    ds.page = name;
    window.history[other ? "pushState" : "replaceState"](null, "", address());
    ds.showPage();
    ds.tell();
  };
  window.addEventListener("popstate", () => { ds.readAddress(); ds.showPage(); ds.tell(); });

  /** Show the page's head and body, and mark its tab. */
  ds.showPage = () => {
    for (const part of document.querySelectorAll("[data-of]")) part.hidden = part.dataset.of !== ds.page;
    for (const tab of tabs()) {
      if (tab.dataset.page === ds.page) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
    document.getElementById("page").dataset.page = ds.page;
    document.getElementById("page").scrollTop = 0;
  };

  ds.onChange = (listener) => listeners.push(listener);
  ds.tell = () => {
    const view = ds.resolve();
    for (const listener of listeners) listener(view);
  };

  /** What the state means for the runs that are there now. */
  ds.resolve = () => {
    const { state, catalogue } = ds;
    const readable = catalogue.runs.filter((run) => !run.problem);
    const newest = readable.slice(-AUTOMATIC_RUNS).map((run) => run.id);
    const wanted = new Set(state.runs || newest);
    const runs = readable.filter((run) => wanted.has(run.id));
    const first = runs.length ? runs[0].id : null;
    const able = runs.filter((run) => !run.lacks?.[ds.page]);
    const held = (id) => runs.some((run) => run.id === id);
    const base = held(state.base) ? state.base : first;
    const last = Math.max(0, ...runs.map((run) => run.last_step ?? 0));
    return {
      ...state,
      runs,
      able,   // those of them that have something to show on this page
      page: ds.page,
      base,
      focus: held(state.focus) ? state.focus : base,
      last,
      end: Math.max(last, ...runs.map((run) => (run.status === "live" ? run.total ?? 0 : 0))),
      shownStep: state.step === null ? last : Math.min(state.step, last),
      following: state.step === null,
      unknown: (state.runs || []).filter((id) => !catalogue.runs.some((run) => run.id === id)),
    };
  };

  // Theme: the system's until the reader chooses; the choice is a reader's, so it is not in the address.
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return window.localStorage.getItem("depthscope-theme"); } catch { return null; } };
  ds.theme = () => document.documentElement.dataset.theme;
  const applyTheme = () => {
    document.documentElement.dataset.theme = stored() || (system.matches ? "dark" : "light");
  };
  applyTheme();
  system.addEventListener("change", () => { applyTheme(); ds.tell(); });
  ds.switchTheme = () => {
    const next = ds.theme() === "dark" ? "light" : "dark";
    try { window.localStorage.setItem("depthscope-theme", next); } catch { /* private window: until it closes */ }
    document.documentElement.dataset.theme = next;
    ds.tell();
  };
})();
