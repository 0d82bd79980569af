"use strict";
const told = JSON.parse(document.getElementById("what-if").textContent);
const noise = document.getElementById("noise");
const places = document.querySelectorAll("dd.what-if");
noise.addEventListener("input", () => {
  const k = Number(noise.value);
  document.getElementById("factor").textContent = told.steps[k];
  noise.setAttribute("aria-valuetext", told.steps[k]);
  places.forEach((place, j) => (place.textContent = told.rows[j][k]));
});
