"use strict";
const figure = JSON.parse(document.getElementById("figure").textContent);
Plotly.newPlot("tree", figure.data, figure.layout, { responsive: true, displaylogo: false });
