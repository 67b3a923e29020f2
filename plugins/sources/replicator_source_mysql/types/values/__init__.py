"""Values of one type each as Arrow arrays, and the rule for values out of range."""
