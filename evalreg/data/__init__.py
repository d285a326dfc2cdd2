"""Any data frame in: columns, labels, formulas and verdicts, and the rows that are kept."""
