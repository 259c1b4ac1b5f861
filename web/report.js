"use strict";
// What every report page shares: its data, elements, tables, and charts that follow the colour scheme.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const element = (tag, text, className) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
};
/// Adds a row to a table; a cell is a text or a node.
function row(table, cells, tag = "td", className) {
  const line = element("tr", undefined, className);
  for (const cell of cells) line.append(cell instanceof Node ? cell : element(tag, cell));
  table.append(line);
}
/// A colour of report.css by its name.
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/// A chart's plugin: a line through each bar or point from the `low` to the `high` of its dataset's `intervals`.
const whiskers = { id: "whiskers", afterDatasetsDraw(chart) {
  const flat = chart.options.indexAxis === "y";
  const scale = flat ? chart.scales.x : chart.scales.y;
  const context = chart.ctx;
  chart.data.datasets.forEach((dataset, i) => {
    chart.getDatasetMeta(i).data.forEach((mark, j) => {
      const interval = dataset.intervals[j];
      if (!interval) return;
      const [from, to] = [interval.low, interval.high].map((value) => scale.getPixelForValue(value));
      context.strokeStyle = dataset.borderColor;
      context.beginPath();
      context.moveTo(flat ? from : mark.x, flat ? mark.y : from);
      context.lineTo(flat ? to : mark.x, flat ? mark.y : to);
      context.stroke();
    });
  });
} };
/// Draws now, and again when the colour scheme changes; `draw` returns the page's charts.
function keepDrawn(draw) {
  let drawn = [];
  const redraw = () => {
    drawn.forEach((chart) => chart.destroy());
    Chart.defaults.color = color("--soft");
    Chart.defaults.borderColor = color("--line");
    Chart.defaults.animation = false;
    Chart.defaults.maintainAspectRatio = false;
    drawn = draw();
  };
  redraw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}
