"""Who may do what: tokens, roles, namespaces, and the rules every request passes."""
