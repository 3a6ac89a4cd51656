"""The rules of EleutherAI's harness, for tasks with neither ``formats`` nor ``template``."""
