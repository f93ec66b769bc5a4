/* How the search sorts what it finds: Sphinx's own figures, and whatever has exactly the name that was typed comes first:
 * adam, gd_sum, gradus.Tensor.sum, --sigma, fit --sigma. */
var Scorer = {
    asked: () => new URLSearchParams(location.search).get("q") || "",
    score: ([, title, , , score]) => {
        const name = Scorer.asked().trim().replace(/^(?:gradus )?(\w+) (?=--)/, "gradus-$1.");
        const last = name.includes(".") ? title : title.split(".").pop();
        return score + (title === name ? 100 : last === name ? 50 : 0);
    },
    objNameMatch: 11,
    objPartialMatch: 6,
    objPrio: {0: 15, 1: 5, 2: -5},
    objPrioDefault: 0,
    title: 15,
    partialTitle: 7,
    term: 5,
    partialTerm: 2,
};
