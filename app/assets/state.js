/* The page's state: what it opens with, changed in one place, and what it means for the runs that are there. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});

  /** How the page opens; `address.js` puts in what the address says. */
  ds.opening = {
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
    share: "contribution", // mixing: what of an origin, as it is or less the baseline's
    mixing: "plain",
    entry: "output:0",     // "target:origin", followed in every run
    top: "12",             // skip paths: most of a run, least weight in per cent, least distance
    threshold: "0",
    distance: "2",
    against: "weight",     // effects: against what, and what stands in place of what is cut
    cut: "any",
    exported: "own",       // what Export saves: the page's figure or its effects
    form: "pdf",           // what Export saves, and how wide
    width: "column",
    sort: "",              // overview: column of the table, with a minus for largest first
    finding: null,         // key of the finding that the findings line stands at; null: the first
  };
  ds.state = { ...ds.opening };
  ds.page = null;          // name of the page shown; null: the first
  ds.catalogue = { runs: [] };
  const listeners = [];
  const AUTOMATIC_RUNS = 4;

  const tabs = () => [...document.querySelectorAll(".page-tab")];

  /** Change the state; everything that shows it is told once. */
  ds.change = (values) => {
    Object.assign(ds.state, values);
    ds.writeAddress();
    ds.tell();
  };

  /** Go to another page: the state goes with it, and the browser's back button returns. */
  ds.goToPage = (name, values = {}) => {
    if (!tabs().some((tab) => tab.dataset.page === name)) return;
    Object.assign(ds.state, values);
    const other = ds.page !== name;
    ds.page = name;
    ds.writeAddress({ push: other });
    ds.showPage();
    ds.tell();
  };

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
      left: state.runs ? 0 : readable.length - runs.length,   // not selected by anybody
    };
  };

  /** The step that stands for the one shown where sweeps of a kind are asked for: a run shows the sweep nearest to it,
      of two the later, so which that is changes only halfway between two steps that the run was measured at: of one way of
      cutting these need not be neighbours. */
  ds.measuredStep = (view, kind) => {
    if (view.following) return null;
    const halfway = view.runs.flatMap((run) => {
      const steps = run.measured?.[kind] ?? [];
      return steps.flatMap((step, i) => steps.slice(i + 1).map((later) => Math.ceil((step + later) / 2)));
    });
    return Math.max(0, ...halfway.filter((step) => step <= view.shownStep));
  };

  /** In words, where something was measured at another step than the page stands at; nothing where it was not. */
  ds.measuredElsewhere = (view, steps) => {
    const other = [...new Set(steps.filter((step) => step !== null && step !== view.shownStep))].sort((a, b) => a - b);
    if (view.following || !other.length) return "";
    return `measured at step${other.length > 1 ? "s" : ""} ${other.map(ds.count).join(", ")}, page at ${ds.count(view.shownStep)}`;
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
