"""Files the package ships: teapot patches, the sample data set, page templates."""
