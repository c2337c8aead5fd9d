/* The page's address: the whole state, read on load and when the browser goes back, written with every change.
   What it asks for and nobody has is named, with what is shown instead. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const CHOICES = {
    mode: ["absolute", "ratio", "fresh", "write", "difference"],
    scale: ["log", "linear"],
    range: ["shared", "full", "own"],
    align: ["step", "tokens", "loss"],
    targets: ["together", "attention", "mlp"],
    weights: ["mean", "spread", "uniform", "local", "difference"],
    share: ["contribution", "coefficient"],
    mixing: ["plain", "difference"],
    against: ["weight", "contribution"],
  };
  const MENUS = ["metric", "top", "threshold", "distance", "cut"];
  const ALWAYS = ["scale", "range", "align"];
  // Of one page only: they are in the address when they differ from how the page opens.
  const OF_A_PAGE = ["targets", "weights", "only", "cell", "share", "mixing", "entry", "top", "threshold", "distance", "against", "cut", "sort", "finding"];
  const KNOWN = ["runs", "base", "focus", "step", "pins", "metric", "mode", ...ALWAYS, ...OF_A_PAGE];
  const CALLED = { base: "baseline", only: "run", metric: "quantity", sort: "column", targets: "choice of targets", weights: "view of the weights", mixing: "view of mixing", against: "axis of effects", cut: "mode of a cut" };
  const LONGEST = 40;

  const integer = (text) => (/^\d{1,15}$/.test(text) ? Number(text) : null);
  const tabs = () => [...document.querySelectorAll(".page-tab")];
  const said = (text) => `“${text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text}”`;
  const label = (name, value) => {
    const menu = document.querySelector(`select[data-name="${name}"]`);
    const shown = menu ? [...menu.options].find((option) => option.value === value)?.text
      : document.querySelector(`[data-action="set"][data-name="${name}"][data-value="${value}"]`)?.textContent;
    return shown || value;
  };

  /** Read the address into the state; return a sentence for each part of it that is not there. */
  ds.readAddress = () => {
    const given = new URLSearchParams(window.location.search);
    const lost = [];
    const { state, opening } = ds;
    const runs = ds.catalogue.runs.map((run) => run.id);
    for (const name of KNOWN) state[name] = opening[name];
    const read = (name, accepts, instead) => {
      const text = given.get(name);
      if (!text) return;
      if (accepts(text)) state[name] = text;
      else lost.push(`No ${CALLED[name] || name} ${said(text)}: ${instead()}.`);
    };

    const tab = tabs().find((entry) => entry.pathname === window.location.pathname);
    ds.page = (tab || tabs()[0]).dataset.page;
    const [root] = tabs().map((entry) => entry.pathname.replace(/[^/]*$/, ""));
    if (!tab && window.location.pathname !== root)
      lost.push(`No page ${said(window.location.pathname.slice(root.length))}: ${tabs()[0].textContent} is shown.`);

    if (given.has("runs")) {
      const asked = given.get("runs").split(",").filter(Boolean);
      const gone = asked.filter((id) => !runs.includes(id));
      const there = asked.filter((id) => runs.includes(id));
      state.runs = asked.length && !there.length ? null : there;
      const instead = there.length ? `the other${there.length > 1 ? "s are" : " is"} shown` : "the newest are shown";
      if (gone.length) lost.push(`No run${gone.length > 1 ? "s" : ""} ${gone.map(said).join(" and ")}: ${instead}.`);
    }
    for (const name of ["base", "focus"]) read(name, (id) => runs.includes(id), () => "the first selected run takes its place");
    read("only", (id) => id === "all" || runs.includes(id), () => "all runs are shown");
    for (const [name, values] of Object.entries(CHOICES))
      read(name, (value) => values.includes(value), () => `${label(name, opening[name])} is shown`);
    for (const name of MENUS) {
      const options = [...(document.querySelector(`select[data-name="${name}"]`)?.options ?? [])].map((option) => option.value);
      read(name, (value) => options.includes(value), () => `${label(name, opening[name])} is shown`);
    }
    read("cell", (cell) => /^[^:]+:\d{1,6}:\d{1,6}$/.test(cell) && runs.includes(cell.split(":")[0]), () => "another is followed");
    read("entry", (entry) => /^(output|[1-9]\d{0,5}):(constant|\d{1,6})$/.test(entry), () => "the embedding in the final read is followed");
    const columns = document.querySelector("[data-columns]")?.dataset.columns.split(" ") ?? [];
    read("sort", (key) => columns.includes(key.replace(/^-/, "")), () => "rows stand as in the drawer");
    read("finding", () => true, () => "");
    if (given.get("step")) {
      state.step = integer(given.get("step"));
      if (state.step === null) lost.push(`No step ${said(given.get("step"))}: the newest is shown.`);
    }
    if (given.get("pins")) {
      const pins = given.get("pins").split(",");
      state.pins = pins.map(integer).filter((pin) => pin !== null);
      const wrong = pins.filter((pin) => integer(pin) === null);
      if (wrong.length) lost.push(`No step ${wrong.map(said).join(" and ")} to pin.`);
    }
    const unknown = [...given.keys()].filter((name) => !KNOWN.includes(name));
    if (unknown.length) lost.push(`Nothing here is called ${unknown.map(said).join(" or ")}.`);
    return lost;
  };

  /** A step past the last record is shown as the last one, and that is said. */
  ds.stepTooFar = () => {
    const { last, runs } = ds.resolve();
    const asked = ds.state.step;
    return asked !== null && runs.length && asked > last ? [`No step ${ds.count(asked)} yet: the last, ${ds.count(last)}, is shown.`] : [];
  };

  const address = () => {
    const { state } = ds;
    const parts = [];
    const put = (name, value) => parts.push(`${name}=${encodeURIComponent(value).replaceAll("%2C", ",").replaceAll("%3A", ":")}`);
    if (state.runs) put("runs", state.runs.join(","));
    if (state.base) put("base", state.base);
    if (state.focus) put("focus", state.focus);
    put("metric", state.metric);
    put("mode", state.mode);
    if (state.step !== null) put("step", state.step);
    if (state.pins.length) put("pins", state.pins.join(","));
    for (const name of ALWAYS) put(name, state[name]);
    for (const name of OF_A_PAGE) if (state[name] !== ds.opening[name]) put(name, state[name]);
    const page = tabs().find((tab) => tab.dataset.page === ds.page)?.pathname || window.location.pathname;
    return `${page}?${parts.join("&")}`;
  };
  ds.writeAddress = ({ push = false } = {}) => window.history[push ? "pushState" : "replaceState"](null, "", address());

  /** Show what the address says, and say what of it is not there. */
  ds.openAddress = () => {
    const lost = ds.readAddress();
    ds.showPage();
    const told = [...lost, ...ds.stepTooFar()];
    if (told.length) ds.notify(told.join(" "));
    if (lost.length) ds.writeAddress();
  };
  window.addEventListener("popstate", () => { ds.openAddress(); ds.tell(); });
})();
