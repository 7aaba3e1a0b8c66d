// meson makes a precompiled header for a target that compiles something: this.
