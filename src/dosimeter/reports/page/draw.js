"use strict";
// Vega-Embed empties the place it draws into by innerHTML = "". No other text may become HTML here.
if (window.trustedTypes) trustedTypes.createPolicy("default", { createHTML: (text) => (text === "" ? text : null) });
// ast: expressions are interpreted, so that the policy needs no eval. Its own style and tooltip would be inline styles.
const drawn = { actions: false, renderer: "svg", ast: true, defaultStyle: false, tooltip: false };
for (const place of document.querySelectorAll(".chart")) {
  const spec = JSON.parse(place.querySelector("script").textContent);
  const at = document.createElement("div");
  place.appendChild(at);
  vegaEmbed(at, spec, drawn).then(
    () => place.setAttribute("data-drawn", "yes"),
    (error) => {
      place.setAttribute("data-drawn", "no");
      console.error(String(error));
    },
  );
}
