"""From params, covariance and degrees of freedom to statements."""
