"""Jobs on a machine: the queue that starts them, the shepherds that run them, their accounts."""
