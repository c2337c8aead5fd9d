/* The numbers behind a plot as a table: the rows that `depthscope export` writes, all of them as CSV. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const { make, fill } = ds;
  const BESIDE = ["panel", "run_id"];   // in the CSV only: the dialog is about one panel, and runs have names
  let asked = null;    // the question whose rows are shown or under way
  let count = 0;

  /** The question of the figure in a panel; of a cell chosen by the server, that cell. */
  const questionOf = (panel) => {
    const question = ds.questionOf(panel);
    if (!question || !ds.drawn(panel)) return null;
    const cell = question.cell ?? Object.values(ds.drawn(panel).layout.meta.cells ?? {})[0];
    return { ...question, ...(cell ? { cell: Array.isArray(cell) ? cell : [cell.target, cell.source] } : {}), panel, key: String(count += 1) };
  };

  ds.showTable = (panel) => {
    asked = questionOf(panel);
    if (!asked) return;
    document.getElementById("data-title").textContent = document.getElementById(`title-${panel}`).textContent;
    document.getElementById("data-note").textContent = "";
    fill(document.getElementById("data-table"), []);
    document.getElementById("data").showModal();
    window.dash_clientside.set_props("ask-rows", { data: asked });
  };

  /** Rows came: the first of them, with three digits. */
  ds.showRows = (table) => {
    if (!asked || table?.key !== asked.key) return;
    const { columns, rows, total } = table;
    const more = rows.length < total ? `, the first ${ds.count(rows.length)} here, all in the CSV` : "";
    document.getElementById("data-note").textContent = `${ds.count(total)} rows${more}`;
    const kept = columns.map((name, i) => [name, i]).filter(([name, i]) => !BESIDE.includes(name) && rows.some((row) => row[i] !== ""));
    const isNumber = ([, i]) => rows.every((row) => row[i] === "" || Number.isFinite(Number(row[i])));
    const numeric = kept.map(isNumber);
    const digits = (text) => (/[.e]/.test(text) ? ds.threeDigits(Number(text)) : text);
    const cell = (row) => ([, i], j) => make("td", numeric[j] ? { class: "number" } : {}, numeric[j] ? digits(row[i]) : row[i]);
    fill(document.getElementById("data-table"), [
      make("thead", {}, make("tr", {}, ...kept.map(([name], j) => make("th", { scope: "col", class: numeric[j] ? "number" : null }, name.replaceAll("_", " "))))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...kept.map(cell(row))))),
    ]);
  };

  ds.saveTable = () => {
    if (asked) window.dash_clientside.set_props("ask-csv", { data: { ...asked, key: String(count += 1) } });
  };
})();
