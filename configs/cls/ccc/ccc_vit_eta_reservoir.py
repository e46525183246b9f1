_base_ = ["./ccc_vit_eta.py", "../../_base_/cls/reservoir.py"]
