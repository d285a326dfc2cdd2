"""From sums within clusters to variances: corrections for few clusters, terms, crossing, degrees of freedom."""
