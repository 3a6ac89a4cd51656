# Test template generation
python examples/template_usage.py

# Test optimized template specifically  
python examples/optimized_prompt.py

# Analyze parsing performance
python scripts/interactive_analysis.py
