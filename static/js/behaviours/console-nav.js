// On a phone the console's sections scroll sideways: bring the current one into sight.
const here = document.querySelector(".console-nav [aria-current]")
const nav = here?.closest(".console-nav")
if (nav) nav.scrollLeft = here.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2
