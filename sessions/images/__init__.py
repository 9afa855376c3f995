"""Docker test images: build and inspect them, and run the suite inside.

* :mod:`bake` reads the images, their arguments and tags from docker/docker-bake.json.
* :mod:`wheels` puts the wheels of torch (public or fork-like) and of the suite into dist/docker.
* :mod:`engine` builds images with Docker's command line, runs them with its SDK, and copies results out.
"""
