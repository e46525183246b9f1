# ReservoirTTA for streams of single frames: what segmentation uses (docs/routing.md). To route as
# the paper or its code does: --cfg-options reservoir.preset=paper (or published_code).
reservoir = dict(preset="stream")
