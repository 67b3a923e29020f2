"""Notifies people of conditions through services such as chats, mail and webhooks: each once, until it is over."""
