"""Programs with open sizes from readers that need numbers: a program is read at several sizes, and what differs is a formula of them."""
