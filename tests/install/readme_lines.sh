# The README's programs and the lines of docs/start that build and install what they need (tests/docs/samples.py checks that the
# README's own lines are among them).  Sourced by the tests that run them.

readme_program() # README
{
    awk '/^```c$/ { code = 1; next } /^```$/ { code = 0 } code' "$1"
}

# The first shell block of a page.
first_lines() # PAGE
{
    awk '/^```sh$/ { code = 1; next } code && /^```$/ { exit } code' "$1"
}

readme_lines() # README
{
    first_lines "$(dirname "$1")/docs/start/c.md"
    echo 'cc example.c $(pkg-config --cflags --libs gradus) -o example && ./example'
}

readme_python_program() # README
{
    awk '/^```python$/ { code = 1; next } /^```$/ { code = 0 } code' "$1"
}

readme_python_lines() # README
{
    first_lines "$(dirname "$1")/docs/start/python.md"
}

# What must be there afterwards, in the shell that ran the lines: the program, its answer, one version, the licence.
readme_checks()
{
    cat <<'CHECKS'
version=$(pkg-config --modversion gradus)
[ "$(gradus --version)" = "gradus $version" ] || { echo "gradus.pc says $version, gradus --version $(gradus --version)"; exit 1; }
./example | tee said
case $(cat said) in "1 1: "*) ;; *) echo "the program did not reach 1 1"; exit 1 ;; esac
for file in bin/gradus lib/libgradus.so lib/libgradus.a include/gradus/gradus.h share/doc/gradus/LICENSE share/man/man1/gradus.1; do
    [ -e "$HOME/.local/$file" ] || { echo "~/.local/$file is not there"; exit 1; }
done
grep -q "MIT License" "$HOME/.local/share/doc/gradus/LICENSE"
CHECKS
}
