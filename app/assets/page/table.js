/* The data behind a plot as a table: what plotly drew, all of it as CSV. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const { make, fill } = ds;
  const MOST_ROWS = 500;
  const NO_DATA = ["hatch", "kind", "partial", "band", "mark"];   // roles that only decorate
  let shown = null;   // {name, columns, rows}

  const plain = (value) => (typeof value === "number" && !Number.isFinite(value) ? "" : value ?? "");
  const titleOf = (axis, otherwise) => axis?.title?.text || otherwise;
  const axisOf = (gd, reference) => gd.layout[`${reference[0]}axis${reference.slice(1)}`];

  /** The rows of a trace: run, series, x, y, and a value where the trace is a map. */
  const rowsOf = (gd, trace) => {
    const meta = gd.layout.meta;
    const named = meta.maps?.[trace.meta.run];   // depth attention: targets and sources have names
    const run = ds.nameOf(trace.meta.run);
    const row = (x, y, value) => [run, trace.meta.role, plain(x), plain(y), plain(value)];
    if (trace.type !== "heatmap") {
      const points = Array.from(trace.x, (x, i) => [x, trace.y[i]]);
      return points.filter(([x]) => plain(x) !== "").map(([x, y]) => {
        if (trace.meta.role === "entropy") return row(named?.target_names[y] ?? y, x, "");
        if (trace.meta.role.startsWith("mass")) return row(named?.source_names[x] ?? x, y, "");
        return row(x, y, "");
      });
    }
    const columns = trace.z[0]?.length ?? 0;
    // Edges of columns stand in x where there is one more of them than there are columns.
    const middle = (i) => (trace.x.length > columns ? (trace.x[i] + trace.x[i + 1]) / 2 : trace.x[i]);
    return Array.from(trace.z).flatMap((line, j) => Array.from(line, (z, i) =>
      row(named?.source_names?.[i] ?? middle(i), named?.target_names?.[j] ?? trace.y[j], meta.log ? 10 ** z : z)));
  };

  const dataOf = (panel) => {
    const gd = ds.drawn(panel);
    if (!gd) return null;
    const traces = gd._fullData.filter((trace) => trace.meta?.run && !NO_DATA.includes(trace.meta.role) && !trace.meta.role.startsWith("stem"));
    if (!traces.length) return null;
    const [x, y] = [axisOf(gd, traces[0].xaxis || "x"), axisOf(gd, traces[0].yaxis || "y")];
    const maps = traces.some((trace) => trace.type === "heatmap");
    const title = document.getElementById(`title-${panel}`).textContent;
    const columns = ["run", "series", titleOf(x, "x"), maps ? titleOf(y, "target") : title, ...(maps ? [meta(gd)] : [])];
    const all = traces.flatMap((trace) => rowsOf(gd, trace)).map((row) => (maps ? row : row.slice(0, 4)));
    // A source that a target cannot read has no row; other gaps stay, as empty values.
    const cells = (row) => row[1] !== "weight" && row[1] !== "contribution";
    const rows = gd.layout.meta.panel === "attention" ? all.filter((row) => cells(row) || row[4] !== "") : all;
    return { name: title, columns, rows };
  };
  const meta = (gd) => (gd.layout.meta.panel === "attention" ? "value" : "value shown");

  const quoted = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  const csv = ({ columns, rows }) => [columns, ...rows].map((row) => row.map(quoted).join(",")).join("\n").concat("\n");

  ds.showTable = (panel) => {
    shown = dataOf(panel);
    const dialog = document.getElementById("data");
    if (!shown) return;
    document.getElementById("data-title").textContent = shown.name;
    const more = shown.rows.length > MOST_ROWS ? `, the first ${MOST_ROWS} here, all in the CSV` : "";
    document.getElementById("data-note").textContent = `${ds.count(shown.rows.length)} rows${more}`;
    const cell = (value) => make("td", typeof value === "number" ? { class: "number" } : {},
      typeof value === "number" && !Number.isInteger(value) ? ds.threeDigits(value) : String(value));
    fill(document.getElementById("data-table"), [
      make("thead", {}, make("tr", {}, ...shown.columns.map((name, i) =>
        make("th", { scope: "col", class: typeof shown.rows[0]?.[i] === "number" ? "number" : null }, name)))),
      make("tbody", {}, ...shown.rows.slice(0, MOST_ROWS).map((row) => make("tr", {}, ...row.map(cell)))),
    ]);
    dialog.showModal();
  };

  ds.saveTable = () => {
    if (!shown) return;
    const address = URL.createObjectURL(new Blob([csv(shown)], { type: "text/csv" }));
    const link = make("a", { href: address, download: `${shown.name.toLowerCase().replaceAll(/[^\w]+/g, "-")}.csv` });
    link.click();
    window.setTimeout(() => URL.revokeObjectURL(address), 1000);
  };
})();
