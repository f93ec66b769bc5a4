# The README's programs and the lines beside them that build and install what they need.  Sourced by the tests that run them.

readme_program() # README
{
    awk '/^```c$/ { code = 1; next } /^```$/ { code = 0 } code' "$1"
}

# The indented block after the program, without its indentation.
readme_lines() # README
{
    awk '/^```c$/ { seen = 1; next } seen == 1 && /^```$/ { seen = 2; next }
         seen == 2 && /^    / { sub(/^    /, ""); print; block = 1; next }
         seen == 2 && block { exit }' "$1"
}

readme_python_program() # README
{
    awk '/^```python$/ { code = 1; next } /^```$/ { code = 0 } code' "$1"
}

# The indented block between the heading and the program.
readme_python_lines() # README
{
    awk '/^## From Python$/ { seen = 1; next } seen && /^```python$/ { exit } seen && /^    / { sub(/^    /, ""); print }' "$1"
}

# What must be there afterwards, in the shell that ran the lines: the program, its answer, one version, the licence.
readme_checks()
{
    cat <<'CHECKS'
version=$(pkg-config --modversion gradus)
[ "$(gradus --version)" = "gradus $version" ] || { echo "gradus.pc says $version, gradus --version $(gradus --version)"; exit 1; }
./example | tee said
case $(cat said) in "1 1 "*) ;; *) echo "the program did not reach 1 1"; exit 1 ;; esac
for file in bin/gradus lib/libgradus.so lib/libgradus.a include/gradus/gradus.h share/doc/gradus/LICENSE share/man/man1/gradus.1; do
    [ -e "$HOME/.local/$file" ] || { echo "~/.local/$file is not there"; exit 1; }
done
grep -q "MIT License" "$HOME/.local/share/doc/gradus/LICENSE"
CHECKS
}
