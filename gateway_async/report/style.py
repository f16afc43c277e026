"""The style of the page: light and dark, wide and narrow, on screen and on paper."""

STYLE = """
:root { color-scheme: light dark;
  --ink: #1c2530; --soft: #55616f; --line: #d5dbe2; --paper: #ffffff; --tint: #f3f5f8;
  --link: #0b57a4; --succeeded: #23803f; --declined: #a85b00; --absent: #6b5bb5;
  --unknown: #c02626; --not_sent: #4a6a8a; --difference: #a85b00; --answered: #2f6fb5; }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e6eaef; --soft: #a4afbc; --line: #39424e; --paper: #14191f; --tint: #1e252d;
  --link: #7db7f5; --succeeded: #4fc274; --declined: #e5a04c; --absent: #a99bf0;
  --unknown: #ff8080; --not_sent: #8fb3d6; --difference: #e5a04c; --answered: #6aa9ec; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 75rem; margin: 0 auto; padding: 1.5rem clamp(0.75rem, 3vw, 2rem) 4rem; }
h1, p { overflow-wrap: anywhere; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 0.25rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 0.75rem; }
p { margin: 0.4rem 0; }
.soft { color: var(--soft); }
.verdict { font-size: 1.1rem; font-weight: 600; margin: 1rem 0; padding: 0.6rem 0.9rem;
  border-left: 0.4rem solid var(--succeeded); background: var(--tint); }
.verdict.bad { border-color: var(--unknown); }
.verdict.some { border-color: var(--declined); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.1rem 1rem; margin: 1rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
code, pre { font: 0.9rem/1.45 ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace; }
pre { background: var(--tint); border: 1px solid var(--line); border-radius: 0.3rem;
  padding: 0.6rem 0.8rem; white-space: pre-wrap; overflow-wrap: anywhere; margin: 0.5rem 0; }
.scroll { overflow-x: auto; position: relative; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding: 0 0 0.4rem; }
th, td { text-align: left; vertical-align: top; padding: 0.4rem 0.6rem;
  border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--line); white-space: nowrap; }
th.number, td.number { text-align: right; white-space: nowrap; }
td.text { overflow-wrap: anywhere; min-width: 5rem; }
td.action { min-width: 10rem; }
td.wide { min-width: 16rem; width: 45%; }
td small { color: var(--soft); display: block; }
.bars th { font-weight: 600; white-space: nowrap; width: 1%; }
.bars td.number { width: 1%; }
.bars th, .bars td { border: 0; padding: 0.25rem 0.6rem 0.25rem 0; }
.bars svg { display: block; width: 100%; height: 1.1rem; min-width: 4rem; margin-top: 0.2rem; }
.track { fill: var(--tint); }
.succeeded { fill: var(--succeeded); } .declined { fill: var(--declined); }
.absent { fill: var(--absent); } .unknown { fill: var(--unknown); }
.not_sent { fill: var(--not_sent); } .difference { fill: var(--difference); }
.answered { fill: var(--answered); }
.mark { white-space: nowrap; font-weight: 600; }
.mark svg { width: 0.7rem; height: 0.7rem; margin-right: 0.4rem; vertical-align: baseline; }
.next { list-style: none; margin: 0; padding: 0; }
.next > li { border-top: 1px solid var(--line); padding: 0.7rem 0; }
.next ul { margin: 0.3rem 0 0; padding-left: 1.2rem; overflow-wrap: anywhere; }
.tools { display: flex; flex-wrap: wrap; gap: 0.5rem 1rem; align-items: end; margin: 0 0 0.75rem; }
.tools label { display: grid; gap: 0.1rem; color: var(--soft); font-size: 0.9rem; }
.tools input, .tools select { font: inherit; color: var(--ink); background: var(--paper);
  border: 1px solid var(--soft); border-radius: 0.3rem; padding: 0.35rem 0.5rem; max-width: 100%; }
.tools output { color: var(--soft); padding: 0.35rem 0; }
th button { all: unset; cursor: pointer; font-weight: 600; white-space: nowrap; }
th button::after { content: " \\2195"; color: var(--soft); }
th[aria-sort=ascending] button::after { content: " \\2191"; color: var(--ink); }
th[aria-sort=descending] button::after { content: " \\2193"; color: var(--ink); }
button:focus-visible, input:focus-visible, select:focus-visible, .scroll:focus-visible {
  outline: 3px solid var(--link); outline-offset: 2px; }
@media (min-width: 40.01rem) { .tools .sort { display: none; } }
@media (max-width: 40rem) { h1 { font-size: 1.4rem; } dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: 0.5rem; } .tools label, .tools input { width: 100%; }
  .listing thead { position: absolute; clip-path: inset(50%); }
  .listing tr:not([hidden]) { display: block; border-top: 2px solid var(--line);
    padding: 0.5rem 0; }
  .listing td { display: grid; grid-template-columns: 7rem 1fr; gap: 0.5rem; border: 0;
    padding: 0.1rem 0; width: auto; min-width: 0; text-align: left; white-space: normal; }
  .listing td::before { content: attr(data-label); color: var(--soft); }
  .listing td:empty { display: none; } }
@media print { .tools { display: none; } tr[hidden] { display: table-row; }
  th button::after { content: ""; } main { max-width: none; padding: 0; }
  tr, li { break-inside: avoid; } h2 { break-after: avoid; }
  thead { display: table-header-group; } }
"""
