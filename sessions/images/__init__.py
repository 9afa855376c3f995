"""Docker test images: build and inspect them, and run the suite inside.

* bake: docker/docker-bake.json -> images with their arguments and tags
* wheels: torch (public or fork-like) and the suite -> dist/docker
* engine: build with the command line, run with the SDK, copy the results out
"""
