/* Buttons, menus and keys: each changes the state and nothing else. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  let live = true;

  const toggleDifference = () => {
    const [name, plain] = ds.page === "attention" ? ["weights", "mean"] : ["mode", "absolute"];
    ds.change({ [name]: ds.state[name] === "difference" ? plain : "difference" });
  };
  const toggleLog = () => ds.change({ scale: ds.state.scale === "log" ? "linear" : "log" });
  const help = () => {
    const dialog = document.getElementById("help");
    if (dialog.open) dialog.close(); else dialog.showModal();
  };
  const poll = () => window.dash_clientside.set_props("poll", { disabled: !live || document.hidden });
  const toggleLive = () => {
    live = !live;
    poll();
    showAge();
  };
  document.addEventListener("visibilitychange", poll);
  const actions = {
    "toggle-run": (data) => ds.toggleRun(data.run),
    "focus-run": (data) => (ds.resolve().runs.some((run) => run.id === data.run) ? ds.change({ focus: data.run }) : ds.toggleRun(data.run)),
    "base-run": (data) => {
      const held = ds.resolve().runs.some((run) => run.id === data.run);
      if (!held) ds.toggleRun(data.run);
      ds.change({ base: data.run });
    },
    set: (data) => ds.change({ [data.name]: data.value }),
    previous: () => ds.goBy(-1),
    next: () => ds.goBy(1),
    play: () => ds.play(),
    pin: () => ds.pinStep(),
    unpin: (data) => ds.unpin(Number(data.step)),
    live: toggleLive,
    theme: () => ds.switchTheme(),
    help,
    "finding-previous": () => ds.turnFinding(-1),
    "finding-next": () => ds.turnFinding(1),
    page: (data) => ds.goToPage(data.page),
    "show-cell": (data) => ds.goToPage("attention", { cell: data.cell, focus: data.cell.split(":")[0], only: "all" }),
    // First largest first, then smallest first, then as the drawer has the runs.
    sort: (data) => ds.change({ sort: ds.state.sort === `-${data.key}` ? data.key : ds.state.sort === data.key ? "" : `-${data.key}` }),
    export: () => { if (ds.canExport()) document.getElementById("export").showModal(); },
    "close-export": () => document.getElementById("export").close(),
    "save-export": () => ds.saveExport(),
    table: (data) => ds.showTable(data.panel),
    "save-table": () => ds.saveTable(),
    "close-table": () => document.getElementById("data").close(),
    cell: (data) => ds.change({ cell: data.cell }),
    evidence: (data) => ds.goToPage(data.page || ds.page, {
      ...(data.metric ? { metric: data.metric, mode: "absolute" } : {}),
      ...(data.cell ? { cell: data.cell } : {}),
      step: Number(data.step),
      focus: data.run || ds.state.focus,
      finding: data.finding,
    }),
    "close-toast": () => ds.closeNotice(),
  };

  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;   // a tab opened beside this one
    const control = event.target.closest?.("[data-action]");
    if (!control || control.getAttribute("aria-disabled") === "true") return;
    if (control.tagName === "A") event.preventDefault();
    actions[control.dataset.action]?.(control.dataset);
  });
  document.addEventListener("change", (event) => {
    const menu = event.target.closest?.("select[data-name]");
    if (!menu) return;
    ds.change({ [menu.dataset.name]: menu.value });
    // Chosen with the pointer, the menu gives the arrow keys back to the steps; with the keyboard it keeps them.
    if (menu === pointed) menu.blur();
  });
  let pointed = null;
  document.addEventListener("pointerdown", (event) => { pointed = event.target.closest?.("select[data-name]") ?? null; });
  document.addEventListener("keydown", () => { pointed = null; }, true);

  const keys = {
    ArrowLeft: (event) => ds.goBy(event.shiftKey ? -10 : -1),
    ArrowRight: (event) => ds.goBy(event.shiftKey ? 10 : 1),
    Home: () => ds.goTo(0),
    End: () => ds.goTo(ds.resolve().last),
    " ": () => ds.play(),
    b: toggleDifference,
    l: toggleLog,
    p: () => ds.pinStep(),
    "/": () => document.getElementById("search").focus(),
    e: () => actions.export(),
    "?": help,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest?.("input, select, textarea");
    if (typing) {
      if (event.target.id === "step-input" && event.key === "Enter") {
        ds.takeStep(event.target);
      }
      if (event.key === "Escape") {
        if (event.target.id === "search") ds.clearSearch();
        event.target.blur();
      }
      return;
    }
    if (document.getElementById("data")?.open || document.getElementById("export")?.open) return;
    if (document.getElementById("help")?.open && event.key !== "?") return;
    if (event.key === " " && event.target.closest?.("button, a, [role=button]")) return;
    if (/^[1-9]$/.test(event.key)) return document.querySelectorAll("nav .page-tab")[Number(event.key) - 1]?.click();
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action(event);
  });
  // Every segmented control and menu shows the state.
  const press = (view) => {
    for (const control of document.querySelectorAll('[data-action="set"]'))
      control.setAttribute("aria-pressed", String(ds.state[control.dataset.name]) === control.dataset.value ? "true" : "false");
    for (const menu of document.querySelectorAll("select[data-name]")) menu.value = ds.state[menu.dataset.name];
    const one = view.runs.length < 2;
    document.querySelector('[data-name="mode"][data-value="difference"]')
      ?.setAttribute("title", one ? "Select a second run to compare with the baseline" : "log2 of the ratio to the baseline (b)");
  };
  ds.onChange(press);

  /** Values that may be below zero have no log axis; the control says so. */
  ds.allowLog = (allowed) => {
    const control = document.querySelector('[data-action="set"][data-value="log"]');
    control.setAttribute("aria-disabled", allowed ? "false" : "true");
    control.title = allowed ? "Logarithmic (l)" : "These values may be below zero, so they have no logarithm";
  };

  // "Live, updated 3 s ago": counted here from the age that came with the newest data.
  const ago = (seconds) => {
    if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s ago`;
    if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
    return seconds < 129600 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} d ago`;
  };
  let newest = null;
  const showAge = () => {
    const element = document.getElementById("live");
    if (!element) return;
    const running = ds.catalogue.runs.some((run) => run.status === "live");
    const when = newest === null ? "no data yet" : `updated ${ago((Date.now() - newest) / 1000)}`;
    element.setAttribute("aria-pressed", live ? "true" : "false");
    element.classList.toggle("running", live && running);
    ds.fill(document.getElementById("live-text"), [
      ds.make("span", { class: "wide" }, live ? (running ? "Live, " : "No run is live, ") : "Paused, "), when,
    ]);
  };
  window.setInterval(showAge, 1000);

  /** The catalogue arrived: the first time the address is read and the page begins. */
  let started = false;
  ds.arrived = (catalogue) => {
    ds.catalogue = catalogue;
    newest = catalogue.age === null ? null : Date.now() - 1000 * catalogue.age;
    if (!started) {
      started = true;
      ds.buildStatic();
      ds.openAddress();
      ds.watchClipped();
    }
    ds.tell();
    showAge();
  };
})();
