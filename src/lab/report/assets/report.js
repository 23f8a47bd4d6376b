const SOLVERS = [
  { key: 'picard', label: 'Picard (plain iteration)', short: 'Picard', symbol: 'circle', dash: 'solid' },
  { key: 'anderson', label: 'Anderson', short: 'Anderson', symbol: 'square', dash: 'dot' },
  { key: 'broyden', label: 'Broyden', short: 'Broyden', symbol: 'diamond', dash: 'dash' },
].map((s) => ({ ...s, colour: s.key }));
// What a legend may have to explain; a legend shows those that its plots use. Runs come on top.
const ITEMS = [
  ['curve', 'equilibria z*(x)', 'curve', 'dash'], ['slices', 'slices shown below', 'plane', 'solid'],
  ['plane', 'plane f = z', 'plane', null, 'square'], ['target', 'target h(x)', 'target', 'solid'],
  ['samples', 'validation samples', 'muted', null, 'circle'], ['f', 'f(z; x)', 'ink', 'solid'],
  ['diagonal', 'diagonal f = z', 'muted', 'dot'], ['star', 'equilibrium z*', 'curve', null, 'ring'],
].map(([key, label, colour, dash, symbol]) => ({ key, label, colour, dash, symbol })).concat(SOLVERS);
const DASHES = ['solid', 'dash', 'dot', 'dashdot', 'longdash', 'longdashdot'];
const SYMBOLS = ['circle', 'square', 'diamond', 'cross', 'triangle-up', 'x'];
const RUN_COLOURS = 10; // --run-1 and so on, in report.css
const FEW_POINTS = 20; // a curve with fewer gets markers: a line through one point is no line

// ---------------------------------------------------------------- helpers
/** An element with attributes and children; text always goes in as text, never as markup. */
function el(tag, attrs = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs)) if (value != null) node.setAttribute(name, value);
  node.append(...children.flat(Infinity).filter((c) => c != null));
  return node;
}

const byId = (id) => document.getElementById(id);
const isNum = (v) => typeof v === 'number' && Number.isFinite(v);
const list = (v) => (Array.isArray(v) ? v : []);
const hasData = (v) => list(v).some(isNum);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const readableTime = (iso) => iso.replace('T', ' ').replace('Z', ' UTC');

/** Three significant digits, a true minus sign, powers of ten where a plain number reads badly. */
function fmt(v) {
  if (!isNum(v)) return '–';
  const size = Math.abs(v);
  let text = Number.isInteger(v) ? String(size) : size >= 1000 ? size.toFixed(0) : size.toPrecision(3);
  if (size >= 1e5 || (size < 1e-3 && size > 0)) {
    const [digits, exponent] = size.toExponential(2).split('e');
    text = `${digits}×10${superscript(exponent.replace('+', ''))}`;
  }
  return v < 0 ? `−${text}` : text;
}

/** Smallest and largest finite number in nested arrays; null when there is none. */
function extent(values) {
  const numbers = list(values).flat(Infinity).filter(isNum);
  return numbers.length ? [numbers.reduce((a, b) => Math.min(a, b)), numbers.reduce((a, b) => Math.max(a, b))] : null;
}

/** Linear interpolation on an ascending grid; null outside, where nothing was measured. */
function interpolate(xs, ys, v) {
  const k = xs.findIndex((x) => x >= v);
  if (k <= 0) return xs[0] === v ? ys[0] : null;
  return ys[k - 1] + ((v - xs[k - 1]) / (xs[k] - xs[k - 1])) * (ys[k] - ys[k - 1]);
}

function movingMean(ys, half) {
  const near = (k) => ys.slice(Math.max(0, k - half), k + half + 1).filter(isNum);
  return ys.map((y, k) => (isNum(y) ? near(k).reduce((a, b) => a + b, 0) / near(k).length : null));
}

// ---------------------------------------------------------------- data
const usable = (slice) => hasData(slice?.z) && hasData(slice?.f);
const isEquilibrium = (run) => isNum(run.summary?.nfe_forward) || hasData(run.metrics?.train?.nfe_forward);

/** Metrics as the figures want them: lines leave out the shares that are zero, and the γ of an explicit network is of no effect. */
function completeMetrics(run, reasons) {
  const { gamma, ...others } = run.metrics?.train ?? {};
  const train = isEquilibrium(run) ? { ...others, gamma } : others;
  const solved = list(train.step).map((_, k) => reasons.some((reason) => isNum(train[reason]?.[k])));
  if (!solved.includes(true)) return { ...run.metrics, train };
  const share = (reason) => solved.map((line, k) => (line ? train[reason]?.[k] ?? 0 : null));
  return { ...run.metrics, train: { ...train, ...Object.fromEntries(reasons.map((reason) => [reason, share(reason)])) } };
}

/** γ over the training of a run; nothing where it has no effect. */
function gammaText(run) {
  const gamma = String(run.gamma ?? '').trim();
  if (!gamma || !isEquilibrium(run)) return '';
  return Number.isNaN(Number(gamma)) ? `γ: ${gamma}` : `γ = ${gamma}`;
}

/** Whether the configurations of several runs differ in the penalty alone: then γ tells them apart. */
function differInGammaAlone(runs) {
  const rest = runs.map((run) => JSON.stringify([...flattenToml(run.config ?? '')]
    .filter(([key]) => !key.startsWith('jacobian.')).sort()));
  const gammas = new Set(runs.map(gammaText).filter(Boolean));
  return runs.length > 1 && new Set(rest).size === 1 && gammas.size === runs.length;
}

/** Runs get a label that tells them apart, and a fixed colour and dash in every figure. */
function prepareRuns(runs) {
  const byGamma = differInGammaAlone(runs);
  const labels = runs.map((run) => run.label || (byGamma && gammaText(run)) || (run.name ?? 'run'));
  const columns = runs.flatMap((run) => Object.keys(run.metrics?.train ?? {}));
  const reasons = [...new Set(['stopped.converged', ...columns.filter((name) => name.startsWith('stopped.'))])];
  const unique = (label) => labels.indexOf(label) === labels.lastIndexOf(label);
  return runs.map((run, k) => ({
    ...run, key: `run${k}`, colour: `run-${(k % RUN_COLOURS) + 1}`, dash: DASHES[k % DASHES.length],
    marker: SYMBOLS[k % SYMBOLS.length], summary: run.summary ?? {}, metrics: completeMetrics(run, reasons),
    label: unique(labels[k]) ? labels[k] : `${labels[k]} (${run.folder ?? k + 1})`,
    slices: list(run.slices).filter(usable).map((s) => ({ ...s, iterates: s.iterates ?? {} })),
  }));
}

/** TOML as a flat map "table.key" → text of the value: enough to compare runs, and it never throws. */
function flattenToml(source) {
  // Strings are set aside first, so that a # or a bracket inside one means nothing.
  const strings = [];
  const pattern = /"""[^]*?"""|'''[^]*?'''|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#.*/g;
  const bare = source.replace(pattern, (s) => (s[0] === '#' ? '' : `\0${strings.push(s) - 1}\0`));
  const restore = (text) => text.replace(/\0(\d+)\0/g, (_, k) => strings[k]).trim();
  const count = (text, brackets) => text.match(brackets)?.length ?? 0;
  const [values, seen] = [new Map(), {}];
  let [table, entry] = ['', ''];
  for (const line of bare.split('\n')) {
    const header = entry ? null : /^\s*(\[\[?)\s*([^[\]]+?)\s*\]/.exec(line);
    if (header) {
      const name = restore(header[2]);
      seen[name] = (seen[name] ?? -1) + 1;
      table = header[1] === '[[' ? `${name}[${seen[name]}].` : `${name}.`;
      continue;
    }
    entry = `${entry} ${line}`.trim();
    if (count(entry, /[[{]/g) > count(entry, /[\]}]/g)) continue; // goes on over the next line
    const pair = /^([^=]+?)\s*=\s*(.*)$/.exec(entry);
    if (pair) values.set(table + restore(pair[1]), restore(pair[2]));
    entry = '';
  }
  return values;
}

// ---------------------------------------------------------------- plots
const panels = []; // every plot on the page, for a redraw in other colours or at another width
const CONFIG = { responsive: true, displaylogo: false, displayModeBar: 'hover', scrollZoom: false, modeBarButtons: [['toImage']] };
const axis = (title, extra = {}) => ({ title: { text: title, standoff: 8 }, automargin: true, nticks: 6, tickangle: 0,
  exponentformat: 'power', gridcolor: css('grid'), zerolinecolor: css('rule'), ...extra });

function baseLayout() {
  const font = { family: css('sans'), size: 12, color: css('ink') };
  return {
    paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', showlegend: false, hovermode: 'closest', font,
    margin: { l: 46, r: 12, t: 8, b: 40 }, hoverlabel: { bgcolor: css('card'), bordercolor: css('rule'), font },
    modebar: { bgcolor: 'rgba(0,0,0,0)', color: css('muted'), activecolor: css('ink') },
    uirevision: 'keep', // a redraw keeps the reader's zoom and camera
    dragmode: matchMedia('(pointer: coarse)').matches ? false : 'zoom', // a finger must be able to scroll past
  };
}

const superscript = (n) => String(n).replace(/./g, (c) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[c] ?? '⁻');
/** 1, 2 or 5 times a power of ten. */
function tickText(digit, exponent) {
  if (exponent >= -2 && exponent <= 4) return String(Number(`${digit}e${exponent}`));
  return `${digit === 1 ? '' : `${digit}×`}10${superscript(exponent)}`;
}

/** A logarithmic axis with labels that can be read by themselves; a linear one where the values lie close together. */
function logScale(values) {
  const [lo, hi] = extent(list(values).flat(Infinity).filter((v) => v > 0)) ?? [1, 1];
  if (hi < 3 * lo) return { rangemode: lo === hi ? 'tozero' : 'normal' }; // around a single value Plotly goes one up and one down
  const [first, last] = [Math.floor(Math.log10(lo)), Math.ceil(Math.log10(hi))];
  const decades = Array.from({ length: last - first + 1 }, (_, k) => first + k).filter((_, k) => k % Math.ceil((last - first) / 7) === 0);
  const ticks = decades.flatMap((e) => (hi > 200 * lo ? [1] : [1, 2, 5]).map((digit) => [digit, e]));
  return { type: 'log', tickvals: ticks.map(([d, e]) => Number(`${d}e${e}`)), ticktext: ticks.map(([d, e]) => tickText(d, e)) };
}

/** Of an axis that counts: ticks at whole numbers, written as such. */
function wholeTicks(values) {
  const [lo, hi] = extent(values) ?? [0, 0];
  return { tickformat: ',d', ...(hi - lo <= 5 ? { dtick: 1 } : {}) };
}

/** A line (or marker) trace; `meta` names the legend entry that switches it. */
const trace = (meta, x, y, line, extra = {}) => (
  { type: 'scatter', mode: 'lines', meta, x, y, line, hovertemplate: '%{x:.4g}, %{y:.4g}<extra></extra>', ...extra });
const newGroup = (...hidden) => ({ panels: [], hidden: new Set(hidden) });
const figure = (title, text) => el('figure', {}, el('figcaption', {}, el('strong', {}, title), text ? el('span', {}, text) : null));

/** Puts a plot into a figure. `build` gives the traces, again whenever colours or width change. */
function plot(group, target, { label, size = '', build, layout }) {
  const div = el('div', { class: `plot ${size}`, role: 'img', 'aria-label': label });
  const traces = () => build().filter((t) => hasData(t.y)); // what was not measured is left out
  const panel = { div, group, traces, layout };
  for (const owner of [panels, group.panels]) owner.push(panel);
  target.append(div);
  return target;
}

function draw({ div, group, traces, layout }) {
  const data = traces().map((t) => ({ ...t, visible: !group.hidden.has(t.meta) }));
  // A print does not wait for Plotly to resize, so it is told the size; a WebGL canvas would come out empty, and keeps its own.
  const printing = 'print' in document.documentElement.dataset;
  const size = printing ? { width: div.clientWidth, height: div.clientHeight } : { autosize: true };
  return Plotly.react(div, data, { ...baseLayout(), ...layout(), ...(group.solid ? {} : size) }, CONFIG);
}

/** One legend for a group of plots, as buttons: Plotly's own cannot be reached by keyboard. */
function legend(group, runs = []) {
  const used = new Set(group.panels.flatMap((p) => p.traces().map((t) => t.meta)));
  const entry = ({ key, label, colour, dash, symbol }) => {
    const swatch = el('span', { class: 'swatch', 'data-dash': dash, 'data-symbol': symbol, style: `--c:var(--${colour})` });
    const button = el('button', { type: 'button', 'aria-pressed': !group.hidden.has(key) }, swatch, label);
    button.addEventListener('click', () => {
      if (!group.hidden.delete(key)) group.hidden.add(key);
      button.setAttribute('aria-pressed', !group.hidden.has(key));
      group.panels.forEach(draw);
    });
    return el('li', {}, button);
  };
  const items = [...ITEMS, ...runs].filter((item) => used.has(item.key));
  return el('ul', { class: 'legend', 'aria-label': 'Legend: show or hide' }, items.map(entry));
}

/** Fills a section of the page and shows it; sections that are never filled stay hidden. */
function show(id, body, bar) {
  const section = byId(id);
  if (bar) section.querySelector('.bar').prepend(bar);
  section.append(...[body].flat(Infinity));
  section.hidden = false;
}

const grid = (least, figures) => el('div', { class: 'grid', style: `--least:${least}` }, figures);
const names = (runs) => runs.map((r) => r.label).join(', ');

// ---------------------------------------------------------------- tables and text
const row = (head, cells) => el('tr', {}, el('th', { scope: 'row' }, head), cells.map((c) => el('td', {}, c)));
function matrixTable(label, keys, columns, cell) {
  const head = el('tr', {}, ['Key', ...columns.map((c) => c.label)].map((text) => el('th', { scope: 'col' }, text)));
  const body = el('tbody', {}, keys.map((key) => row(key, columns.map((c) => cell(c, key)))));
  const table = el('table', { class: 'text' }, el('thead', {}, head), body);
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, table);
}

/** What a run that is not the synthetic one is judged by; only columns with a number are shown. */
const JUDGED = [['exact', 'Puzzles, %'], ['cells', 'Cells, %'], ['accuracy', 'Accuracy, %'], ['top5', 'Top 5, %'], ['perplexity', 'Perplexity'], ['mean_iou', 'Mean IoU, %'],
  ['pixel_accuracy', 'Pixels, %'], ['loss', 'Loss'], ['nfe_forward', 'Evaluations'], ['residual', 'Residual'], ['rho', 'ρ'],
  ['jacobian_norm', ['‖J‖', 'F']], ['step', 'Steps'], ['seconds', 'Seconds'], ['peak_memory_mib', 'Peak memory, MiB']];
const withSubscript = ([text, below]) => [text, el('sub', {}, below)];
const lastOf = (values) => list(values).filter(isNum).at(-1);
const isSynthetic = (run) => isNum(run.summary.mse);
const runHead = (r) => [r.label, el('small', {}, r.label.startsWith(r.name) ? gammaText(r) : r.name ?? '')];

/** Rows of text under a row of headings. */
function plainTable(label, headings, rows) {
  const head = el('tr', {}, ['', ...headings].map((text) => el('th', { scope: 'col', class: 'brief' }, text)));
  const table = el('table', {}, el('thead', {}, head), el('tbody', {}, rows.map(([name, cells]) => row(name, cells))));
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, table);
}

function summarySection(runs) {
  if (!runs.length) return;
  const synthetic = runs.filter(isSynthetic);
  const others = runs.filter((r) => !isSynthetic(r));
  for (const part of document.querySelectorAll('[data-synthetic]')) part.hidden = !synthetic.length;
  const columns = [...document.querySelectorAll('#summary th[data-key]')].map((th) => th.dataset.key);
  byId('summary-rows').append(...synthetic.map((r) => row(runHead(r), columns.map((key) => fmt(r.summary[key])))));
  const value = (r, key) => r.summary[key] ?? lastOf(r.metrics?.train?.[key]);
  const judged = JUDGED.filter(([key]) => others.some((r) => isNum(value(r, key))));
  const table = others.length ? plainTable('Summary of the runs', judged.map(([, text]) => (list(text).length ? withSubscript(text) : text)),
    others.map((r) => [runHead(r), judged.map(([key]) => fmt(value(r, key)))])) : [];
  const keys = [...new Set(runs.flatMap((r) => Object.keys(r.summary)))];
  const all = matrixTable('All measured values', keys, runs, (r, key) => fmt(r.summary[key]));
  show('summary', [table, keys.length ? el('details', {}, el('summary', {}, 'All measured values'), all) : []]);
}

function warningsNotice(runs) {
  const items = runs.flatMap((r) => list(r.warnings).map((w) => el('li', {}, el('strong', {}, `${r.label}: `), String(w))));
  if (items.length) show('warnings', el('ul', {}, items));
}

function configSection(runs) {
  const shown = runs.filter((r) => r.config).map((r) => ({ ...r, values: flattenToml(r.config) }));
  if (!shown.length) return;
  const keys = [...new Set(shown.flatMap((r) => [...r.values.keys()]))];
  const differing = keys.filter((key) => new Set(shown.map((r) => r.values.get(key))).size > 1);
  const table = matrixTable('Keys that differ', differing, shown, (r, key) => r.values.get(key) ?? '–');
  const comparison = differing.length ? [el('p', {}, 'Keys that differ between the runs:'), table] : [];
  const source = (r) => el('details', {}, el('summary', {}, r.label, el('small', {}, r.folder ?? r.name ?? '')),
    el('pre', { tabindex: '0' }, el('code', {}, r.config)));
  show('configuration', [comparison, shown.map(source)]);
}

/** One column for all runs that were made in the same environment, whenever they were started. */
function environmentSection(environment, runs) {
  const groups = new Map();
  for (const r of runs.filter(({ environment: own }) => Object.keys(own ?? {}).length)) {
    const key = JSON.stringify({ ...r.environment, started: null });
    groups.set(key, [...(groups.get(key) ?? []), r]);
  }
  const started = (group) => {
    const times = group.map((r) => r.environment.started).filter(Boolean).sort().map(readableTime);
    return times.length ? { started: [...new Set([times[0], times.at(-1)])].join(' to ') } : {};
  };
  const columns = [...groups.values()].map((group) => ({
    label: group.length === runs.length && runs.length > 1 ? 'All runs' : names(group),
    values: { ...group[0].environment, ...started(group) } }));
  columns.push({ label: columns.length ? 'This page' : 'Value', values: environment ?? {} });
  const keys = [...new Set(columns.flatMap((c) => Object.keys(c.values)))];
  if (keys.length) show('environment', matrixTable('Environment', keys, columns, (c, key) => c.values[key] ?? '–'));
}

// ---------------------------------------------------------------- what a recipe asks for
const AXES = { seconds: 'seconds, validations included', train_seconds: 'seconds of training', budget: 'evaluations of f', jacobian_norm: '‖J‖<sub>F</sub>' };

function extraTraces({ kind, log, series }, runs) {
  return series.flatMap((s) => {
    const other = { key: s.label, colour: 'muted', dash: 'dot', marker: 'circle', label: s.label };
    const run = runs.find((r) => r.label === s.label) ?? other;
    const text = { hovertemplate: `${s.label}: %{y:.4g}<extra></extra>` };
    if (kind === 'bars') {
      return { type: 'bar', meta: run.key, x: [s.label], y: s.y, text: s.y.map(fmt), textposition: 'outside', cliponaxis: false,
        marker: { color: css(run.colour) }, ...text };
    }
    const marker = { color: css(run.colour), size: 8, symbol: run.marker };
    if (kind === 'points') return trace(run.key, s.x, s.y, {}, { mode: 'markers', marker, ...text });
    return curveTraces(run, s.x, s.y, log);
  });
}

function reproductionSection(extras, runs) {
  if (!extras) return;
  byId('about').textContent = extras.about;
  const group = newGroup();
  const tables = list(extras.tables).map((t) => [el('h3', {}, t.title),
    plainTable(t.title, t.columns, t.rows.map((r) => [r.label, r.cells])), t.caption ? el('p', { class: 'note' }, t.caption) : []]);
  const figures = list(extras.figures).map((f) => {
    const bars = f.kind === 'bars';
    const [lo, hi] = extent(f.series.map((s) => s.y)) ?? [0, 1];
    const log = f.log && lo > 0 && !bars;
    const yScale = { ...(log ? logScale(f.series.map((s) => s.y)) : { rangemode: 'tozero' }), ...(bars ? { range: [0, hi * 1.15] } : {}) };
    const xScale = bars ? { type: 'category', nticks: 0, tickangle: 'auto' } : { nticks: 5 };
    return plot(group, figure(f.title, f.caption), { build: () => extraTraces({ ...f, log }, runs),
      layout: () => ({ xaxis: axis(AXES[f.x_label] ?? f.x_label, xScale), yaxis: axis('', yScale) }),
      label: `${f.title}, for ${names(f.series)}` });
  });
  const others = list(extras.figures).flatMap((f) => f.series).filter((s) => !runs.some((r) => r.label === s.label))
    .map(({ label }) => ({ key: label, label, colour: 'muted', dash: 'dot' }));
  const unique = others.filter((o, k) => others.findIndex((p) => p.key === o.key) === k);
  const drawn = figures.length ? [el('h3', {}, 'Figures'), grid('20rem', figures)] : [];
  show('reproduction', [tables, drawn], legend(group, [...runs, ...unique]));
}

/** "accuracy@4" and its like: the last validation under other budgets than the run's own. */
function sweepSection(runs) {
  const sweeps = new Map(); // metric → run → points
  for (const run of runs) {
    for (const [key, value] of Object.entries(run.summary)) {
      const [, metric, budget] = /^(.+)@(\d+)$/.exec(key) ?? [];
      if (!metric || !isNum(value)) continue;
      const points = sweeps.get(metric) ?? sweeps.set(metric, new Map()).get(metric);
      points.set(run, [...(points.get(run) ?? []), [Number(budget), value]]);
    }
  }
  if (!sweeps.size) return;
  const group = newGroup();
  const figures = [...sweeps].map(([metric, points]) => {
    for (const [run, values] of points) {
      const own = Number(flattenToml(run.config).get('solver.forward.max_evals'));
      if (isNum(own) && isNum(run.summary[metric]) && !values.some(([n]) => n === own)) values.push([own, run.summary[metric]]);
      values.sort((a, b) => a[0] - b[0]);
    }
    const values = [...points.values()].flat().map((p) => p[1]);
    const log = metric !== 'accuracy' && values.every((v) => v > 0);
    const build = () => [...points].map(([run, values]) => trace(run.key, values.map((p) => p[0]), values.map((p) => p[1]),
      { color: css(run.colour), width: 2, dash: run.dash }, { mode: 'lines+markers', marker: { size: 7, color: css(run.colour) } }));
    const scale = log ? logScale(values) : { rangemode: 'tozero' };
    return plot(group, figure(metric), { build, layout: () => ({ xaxis: axis(AXES.budget), yaxis: axis('', scale) }),
      label: `${metric} against the evaluations allowed, for ${names([...points.keys()])}` });
  });
  show('sweep', grid('20rem', figures), legend(group, runs));
}

/** How the solves of validation went, evaluation by evaluation. */
function tracesSection(runs) {
  const most = 8; // curves per run
  const solves = (run) => {
    const { step, residual_trace: curves } = run.metrics?.valid ?? {};
    const all = list(curves).map((y, k) => ({ y, step: step?.[k] })).filter(({ y }) => hasData(y));
    const every = Math.max(1, Math.ceil(all.length / most));
    return all.filter((_, k) => (all.length - 1 - k) % every === 0); // the last one is always there
  };
  const shown = runs.map((run) => ({ run, curves: solves(run) })).filter(({ curves }) => curves.length);
  if (!shown.length) return;
  const group = newGroup();
  const scale = logScale(shown.flatMap(({ curves }) => curves.map((c) => c.y)));
  const line = (run, { y, step }, opacity) => trace(run.key, y.map((_, k) => k + 1), y.map((v) => (v > 0 ? v : null)),
    { color: css(run.colour), width: 2, dash: run.dash }, { mode: 'lines+markers', marker: { size: 5, color: css(run.colour) }, opacity,
      connectgaps: true, hovertemplate: `${run.label}, step ${step}: %{y:.3g} after %{x}<extra></extra>` });
  const panel = (title, build) => plot(group, figure(title), { build, label: `${title}: residual against evaluations`,
    layout: () => ({ xaxis: axis(AXES.budget), yaxis: axis('', scale) }) });
  const own = shown.map(({ run, curves }) => panel(run.label,
    () => curves.map((c, k) => line(run, c, (k + 1) / curves.length))));
  const last = () => shown.map(({ run, curves }) => line(run, curves.at(-1), 1));
  show('traces', grid('20rem', shown.length > 1 ? [panel('The last validation of each', last), ...own] : own), legend(group, runs));
}

/** A grid as a table, of so many cells in a row. */
function gridTable(kind, cells, columns, cell) {
  const rowOf = (r) => el('tr', {}, Array.from({ length: columns }, (_, c) => cell(r * columns + c)));
  return el('table', { class: `puzzle ${kind}`, style: `--columns: ${columns}` },
    el('tbody', {}, Array.from({ length: cells / columns }, (_, r) => rowOf(r))));
}

/** `given` and `right` are lines of as many cells as the Sudoku's. */
function sudokuGrid(line, given, right) {
  const side = Math.round(Math.sqrt(line.length));
  const boxRows = Math.floor(Math.sqrt(side));
  const boxColumns = side / boxRows;
  const cell = (at) => {
    const [rowNumber, column] = [Math.floor(at / side), at % side];
    const edges = [column && column % boxColumns === 0 ? 'left' : '', rowNumber && rowNumber % boxRows === 0 ? 'top' : ''];
    const blank = line[at] === '.';
    const wrong = !blank && line[at] !== right[at];
    const kinds = [given[at] !== '.' ? 'given' : '', wrong ? 'wrong' : ''];
    const text = blank ? '' : line[at];
    return el('td', { class: [...kinds, ...edges].filter(Boolean).join(' ') || null }, wrong ? el('s', {}, text) : text);
  };
  return gridTable('sudoku', line.length, side, cell);
}

const MAZE_CELLS = { '#': 'wall', S: 'end', G: 'end', o: 'path' };

/** Rows are as long as they are many, or have slashes between them. */
function mazeGrid(line, right) {
  const [cells, wanted] = [line, right].map((text) => text.replaceAll('/', ''));
  const columns = line.includes('/') ? line.indexOf('/') : Math.round(Math.sqrt(cells.length));
  return gridTable('maze', cells.length, columns, (at) => {
    const wrong = cells[at] !== wanted[at];
    const missed = wrong && wanted[at] === 'o';
    const kinds = [MAZE_CELLS[cells[at]], missed ? 'missed' : wrong && 'wrong'].filter(Boolean);
    return el('td', { class: kinds.join(' ') || null }, kinds[0] === 'end' ? cells[at] : '');
  });
}

/** The last validation's puzzle, wherever its answer changes on the way. */
function puzzleSection(runs) {
  const last = (run, key) => list(run.metrics?.valid?.[key]).filter((v) => typeof v === 'string').at(-1);
  const shown = runs.filter((run) => last(run, 'puzzle_way'));
  if (!shown.length) return;
  const drawn = (line, given, right) => (/[#SG]/.test(given) ? mazeGrid(line, right) : sudokuGrid(line, given, right));
  const titled = (title, ...lines) => el('figure', {}, el('figcaption', {}, title), drawn(...lines));
  show('puzzle', shown.map((run) => {
    const [question, answer, way] = ['puzzle_question', 'puzzle_answer', 'puzzle_way'].map((key) => last(run, key) ?? '');
    const length = question.length + 1; // of one grid in the way, with what parts it from the next
    const steps = Array.from({ length: (way.length + 1) / length }, (_, k) => ({ line: way.slice(k * length, (k + 1) * length - 1), evaluations: k + 1 }))
      .filter(({ line }, k, all) => k === 0 || line !== all[k - 1].line);
    const figures = steps.map(({ line, evaluations }) => titled(`After ${evaluations}`, line, question, answer));
    return [el('h3', {}, run.label), el('div', { class: 'puzzles' }, titled('The question', question, question, question), figures)];
  }));
}

// ---------------------------------------------------------------- Figure 5, top: surfaces
const CENTER = { x: 0, y: 0, z: -0.2 }; // leaves room for the labels below
const SURFACE = { meta: 'surface', colorscale: 'Viridis',
  hovertemplate: 'x %{x:.3f}<br>z %{y:.3f}<br>f(z; x) %{z:.3f}<extra></extra>' };
const hasWebGL = () => Boolean(document.createElement('canvas').getContext('webgl'));

function surfaceTraces(run, ranges) {
  const { x, z, f, z_star: zStar } = run.surface;
  // A line that lies in the surface is half hidden by it, so lines are drawn just above and below.
  const lift = (ranges.f[1] - ranges.f[0]) * 0.01;
  const lines = (meta, xs, zs, fs, style) => [lift, -lift].map((d) => trace(meta, xs, zs, style,
    { type: 'scatter3d', z: list(fs).map((v) => (isNum(v) ? v + d : null)) }));
  return [
    { ...SURFACE, type: 'surface', x, y: z, z: f, cmin: ranges.f[0], cmax: ranges.f[1], showscale: false,
      lighting: { ambient: 0.8, diffuse: 0.5, specular: 0.05 } },
    { type: 'surface', meta: 'plane', x: ranges.x, y: ranges.z, z: ranges.z.map((v) => [v, v]), opacity: 0.35, hoverinfo: 'skip',
      showscale: false, colorscale: [[0, css('plane')], [1, css('plane')]] },
    ...lines('curve', x, zStar, zStar, { color: css('curve'), width: 7, dash: 'dash' }),
    ...run.slices.flatMap((s) => lines('slices', s.z.map(() => s.x), s.z, s.f, { color: css('slice'), width: 3 })),
  ];
}

function surfaceLayout(ranges) {
  const side = (title, range) => ({ ...axis(title), range, title: { text: title }, nticks: 5, showspikes: false, color: css('scene') });
  const axes = { xaxis: side('x', ranges.x), yaxis: side('z', ranges.z), zaxis: side('f(z; x)', ranges.f) };
  const camera = { eye: { x: 1.25, y: 1.4, z: 1 }, center: CENTER };
  const shape = { aspectmode: 'manual', aspectratio: { x: 1.1, y: 1.1, z: 0.8 } };
  return { margin: { l: 0, r: 0, t: 0, b: 0 }, scene: { camera, dragmode: 'turntable', ...shape, ...axes } };
}

function contourTraces(run, ranges) {
  const { x, z, f, z_star: zStar } = run.surface;
  return [
    { ...SURFACE, type: 'contour', x, y: z, z: f, zmin: ranges.f[0], zmax: ranges.f[1], ncontours: 18, line: { width: 0.4 },
      colorbar: { thickness: 10, outlinewidth: 0 } },
    ...run.slices.map((s) => trace('slices', [s.x, s.x], extent(s.z), { color: css('slice'), width: 1.5 })),
    trace('curve', x, zStar, { color: css('curve'), width: 3, dash: 'dash' }),
  ];
}
const contourLayout = (ranges) => ({ xaxis: axis('x', { range: ranges.x }), yaxis: axis('z', { range: ranges.z }) });

/** Buttons for the camera; turning one surface by hand turns all, so that they stay comparable. */
function linkCameras(group) {
  let busy = false;
  const apply = async (camera, source) => {
    busy = true; // the others report the change that is made here, too
    for (const { div } of group.panels) if (div !== source) await Plotly.relayout(div, { 'scene.camera': camera });
    busy = false;
  };
  group.afterDraw = ({ div }) => div.on('plotly_relayout', (change) => {
    if (!busy && change['scene.camera']) apply(change['scene.camera'], div);
  });
  byId('views').hidden = false;
  byId('views').addEventListener('click', ({ target: { dataset } }) => {
    if (dataset.eye) apply({ eye: JSON.parse(dataset.eye), up: JSON.parse(dataset.up), center: CENTER });
  });
}

function surfaceSection(runs) {
  const shown = runs.filter((r) => hasData(r.surface?.x) && hasData(r.surface.z) && hasData(r.surface.f?.[0]));
  if (!shown.length) return;
  const solid = shown.length <= 8 && hasWebGL(); // browsers drop the oldest context when a page holds too many
  const ranges = Object.fromEntries(['x', 'z', 'f'].map((key) => [key, extent(shown.map((r) => r.surface[key]))]));
  const group = { ...newGroup('plane'), solid };
  const figures = shown.map((run) => plot(group, figure(run.label), {
    size: 'tall', build: () => (solid ? surfaceTraces : contourTraces)(run, ranges),
    layout: () => (solid ? surfaceLayout : contourLayout)(ranges),
    label: `${solid ? 'Surface' : 'Contours'} of f(z; x) for ${run.label}, with the learned equilibria z*(x) as a dashed red line`,
  }));
  byId('flat').hidden = solid;
  if (solid) linkCameras(group);
  show('surfaces', grid(shown.length % 3 ? '26rem' : '20rem', figures), legend(group));
}

// ---------------------------------------------------------------- Figures 4 and 5, bottom: iterates
/** (z0,z0) → (z0,f(z0)) → (z1,z1) → …: for the plain iteration f(z_k) is z_{k+1}. */
function cobweb(z) {
  const twice = z.flatMap((v) => [v, v]);
  return [twice.slice(0, -1), twice.slice(1)];
}

/** The part of the z axis that the iterates visit; far excursions stop at the sampled grid. */
function iterateRange(slices) {
  const [lo, hi] = extent(slices.map((s) => s.z));
  const visited = slices.map((s) => [s.z_star, ...Object.values(s.iterates)]).flat(Infinity).filter(isNum);
  const [a, b] = extent(visited.map((v) => Math.min(hi, Math.max(lo, v)))) ?? [lo, hi];
  const half = 1.18 * Math.max((b - a) / 2, (hi - lo) / 20);
  return [(a + b) / 2 - half, (a + b) / 2 + half];
}

function solverTrace(solver, { z, f, iterates }) {
  const zs = list(iterates[solver.key]).filter(isNum);
  const plain = solver.key === 'picard';
  const [x, y] = plain ? cobweb(zs) : [zs, zs.map((v) => interpolate(z, f, v))];
  const marker = { color: css(solver.key), symbol: solver.symbol, size: plain ? 4 : 7 };
  return trace(solver.key, x, y, { color: css(solver.key), width: 1.6, dash: solver.dash },
    { mode: 'lines+markers', marker, hovertemplate: `${solver.short}: %{x:.4f}, %{y:.4f}<extra></extra>` });
}

function iteratePlot(group, target, slice, range, options) {
  const layout = () => ({ xaxis: axis('z', { range }), yaxis: axis('f(z; x)', { range }) });
  const ring = () => ({ symbol: 'circle-open', size: 13, color: css('curve'), line: { width: 2.5 } });
  const build = () => [
    trace('diagonal', range, range, { color: css('muted'), width: 1, dash: 'dot' }),
    trace('f', slice.z, slice.f, { color: css('ink'), width: 2.2 }),
    ...SOLVERS.map((s) => solverTrace(s, slice)),
    trace('star', [slice.z_star], [slice.z_star], {}, { mode: 'markers', marker: ring() }),
  ];
  return plot(group, target, { ...options, build, layout });
}
const steps = ({ iterates }) => SOLVERS.filter((s) => hasData(iterates[s.key]))
  .map((s) => `${s.short}\u00a0${iterates[s.key].length - 1}`).join(', ');

function slicesSection(runs) {
  const all = runs.flatMap((run) => run.slices.map((s) => ({ ...s, run })));
  if (!all.length) return;
  const group = newGroup('anderson');
  const rows = [...new Set(all.map((s) => s.x))].sort((a, b) => a - b).map((x) => {
    const slices = all.filter((s) => s.x === x);
    const range = iterateRange(slices); // shared along the row, so that steepness can be compared by eye
    const figures = slices.map((s) => iteratePlot(group, figure(s.run.label, steps(s) && `Steps: ${steps(s)}`), s, range, {
      label: `f(z; x) over z at x = ${x} for ${s.run.label}, with the diagonal and the solvers' iterates. ${steps(s)}` }));
    return [el('h3', {}, `x = ${String(x).replace('-', '−')}`), grid('15rem', figures)];
  });
  show('slices', rows, legend(group));
}

function figure4Section(figure4) {
  const shown = list(figure4).filter(usable).map((p) => ({ ...p, iterates: { picard: p.picard, broyden: p.broyden } }));
  if (!shown.length) return;
  const group = newGroup();
  const figures = shown.map((p) => iteratePlot(group, figure(p.title ?? `slope ${fmt(p.slope)}`), p, iterateRange([p]), {
    size: 'wide', label: `The plain iteration and Broyden's method on a map with slope ${fmt(p.slope)} at its fixed point` }));
  show('figure4', grid('20rem', figures), legend(group));
}

// ---------------------------------------------------------------- Figure 9, evaluations, training
function fitSection(runs) {
  const target = runs.find((r) => hasData(r.target?.h))?.target;
  const samples = runs.find((r) => hasData(r.samples?.y))?.samples;
  const fitted = runs.filter((r) => hasData(r.surface?.z_star));
  if (!target && !samples && !fitted.length) return;
  const group = newGroup();
  const build = () => [
    trace('target', target?.x, target?.h, { color: css('target'), width: 8 }),
    trace('samples', samples?.x, samples?.y, {}, { mode: 'markers', marker: { color: css('muted'), size: 4, opacity: 0.4 } }),
    ...fitted.map((r) => trace(r.key, r.surface.x, r.surface.z_star, { color: css(r.colour), width: 2.2, dash: r.dash })),
  ];
  plot(group, document.querySelector('#fit figure'), { size: 'wide', build,
    layout: () => ({ xaxis: axis('x'), yaxis: axis('h(x), z*(x)') }),
    label: `Target h(x), validation samples and the learned equilibria of ${names(fitted)}` });
  show('fit', [], legend(group, fitted));
}

function evaluationsSection(all) {
  const group = newGroup();
  const runs = all.filter(isSynthetic);
  const values = (t, s) => runs.map((r) => r.summary[`nfe_to_${t}.${s.key}`] ?? null);
  const top = extent(['1e-3', '1e-6'].map((t) => SOLVERS.map((s) => values(t, s))))?.[1]; // one scale for both plots
  const bars = (s, y) => ({ type: 'bar', meta: s.key, x: runs.map((r) => r.label), y, text: y.map((v) => (isNum(v) ? fmt(v) : '')),
    textposition: 'outside', cliponaxis: false, marker: { color: css(s.key) }, hovertemplate: `${s.short}: %{y}<extra></extra>` });
  const layout = () => ({ barmode: 'group', bargap: 0.25, xaxis: axis('', { type: 'category', nticks: 0 }),
    yaxis: axis('evaluations', { range: [0, top * 1.12] }) });
  for (const target of document.querySelectorAll('#evaluations figure')) {
    const build = () => SOLVERS.map((s) => bars(s, values(target.dataset.tolerance, s)));
    if (!build().some((t) => hasData(t.y))) target.remove();
    else plot(group, target, { build, layout, label: `Bars: ${target.textContent}, by run and solver, as in the summary table` });
  }
  if (top) show('evaluations', [], legend(group));
}

function curveTraces(run, xs, values, log) {
  const y = values.map((v) => (isNum(v) && !(log && v <= 0) ? v : null)); // a log axis has no zero
  const x = hasData(xs) ? xs : y.map((_, k) => k);
  const style = { color: css(run.colour), width: 2, dash: run.dash };
  const marked = { mode: 'lines+markers', marker: { color: style.color, size: 6, symbol: run.marker } };
  const main = (ys) => trace(run.key, x, ys, style, { connectgaps: true, hovertemplate: `${run.label}: %{y:.4g} at %{x}<extra></extra>`,
    ...(y.filter(isNum).length < FEW_POINTS ? marked : {}) });
  if (y.length < 100) return [main(y)];
  const faint = { opacity: 0.22, hoverinfo: 'skip', hovertemplate: null };
  return [trace(run.key, x, y, { color: style.color, width: 1 }, faint), main(movingMean(y, Math.ceil(y.length / 60)))];
}

/** Buttons that say what the curves are drawn over; `over.key` is the one in force. */
function axisSwitch(group, over) {
  const buttons = [...byId('axis').querySelectorAll('button')];
  byId('axis').hidden = false;
  byId('axis').addEventListener('click', ({ target: { dataset } }) => {
    if (!dataset.over) return;
    over.key = dataset.over;
    for (const button of buttons) button.setAttribute('aria-pressed', button.dataset.over === over.key);
    group.panels.forEach(draw);
  });
}

function trainingSection(runs) {
  const group = newGroup();
  const over = { key: 'step' };
  for (const target of document.querySelectorAll('#training figure')) {
    const { split, key } = target.dataset;
    const values = (r) => list(r.metrics?.[split]?.[key]);
    const shown = runs.filter((r) => hasData(values(r)));
    const [lo, hi] = extent(shown.map(values)) ?? [];
    const log = 'log' in target.dataset && lo >= 0 && hi > 0;
    const scale = log ? logScale(shown.map(values)) : { rangemode: 'tozero' };
    const along = () => shown.map((r) => list(r.metrics[split][over.key]));
    if (!shown.length) target.remove();
    else plot(group, target, { build: () => shown.flatMap((r) => curveTraces(r, r.metrics[split][over.key], values(r), log)),
      // A zoom on one axis means nothing on the other.
      layout: () => ({ xaxis: axis(AXES[over.key] ?? over.key,
        { nticks: 5, uirevision: over.key, ...(over.key === 'step' ? wholeTicks(along()) : {}) }), yaxis: axis('', scale) }),
      label: `${target.textContent} against the training step or time, for ${names(shown)}` });
  }
  if (!group.panels.length) return;
  show('training', [], legend(group, runs));
  if (runs.some((r) => hasData(r.metrics.train?.seconds))) axisSwitch(group, over);
}

// ---------------------------------------------------------------- the page
function headings(data, runs) {
  if (data.title) byId('title').textContent = document.title = data.title;
  const when = String(data.generated ?? '');
  const time = el('time', { datetime: when }, readableTime(when));
  byId('byline').append(`libdeq ${data.deq_version ?? ''} · ${runs.length} run${runs.length === 1 ? '' : 's'}${when && ' · '}`, time);
  for (const { id, dataset } of document.querySelectorAll('section:not([hidden])')) {
    byId('contents').append(el('li', {}, el('a', { href: `#${id}` }, dataset.name)));
  }
}

/** Paper gets light colours, and plots drawn at its own width: neither can be done by CSS alone. */
function watchPrintAndTheme() {
  const redraw = () => panels.forEach(draw);
  addEventListener('beforeprint', () => { document.documentElement.dataset.print = ''; redraw(); });
  addEventListener('afterprint', () => { delete document.documentElement.dataset.print; redraw(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
}

try {
  const data = JSON.parse(byId('deq-data').textContent);
  const runs = prepareRuns(list(data.runs));
  reproductionSection(data.extras, runs);
  [warningsNotice, summarySection, surfaceSection, slicesSection, fitSection, evaluationsSection, sweepSection, tracesSection,
    puzzleSection, trainingSection, configSection].forEach((make) => make(runs));
  figure4Section(data.figure4);
  environmentSection(data.environment, runs);
  headings(data, runs);
  for (const panel of panels) {
    await draw(panel);
    panel.group.afterDraw?.(panel);
    await new Promise((resume) => { setTimeout(resume); }); // the page stays responsive while it fills
  }
  watchPrintAndTheme();
  document.documentElement.dataset.ready = 'true'; // lets a test wait for the last plot
} catch (error) {
  byId('report').prepend(el('p', { class: 'notice' }, `The report could not be drawn in full: ${error.message}`));
  console.error(error);
}
