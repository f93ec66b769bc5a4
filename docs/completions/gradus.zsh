#compdef gradus
# zsh completion for gradus.  Printed by: gradus help --completions zsh
_gradus()
{
    local line files= tab=$'\t'
    local -a names shown open
    for line in "${(@f)$(${~words[1]} complete zsh $((CURRENT - 1)) -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == :files ]]; then
            files=1
        elif [[ -n $line ]]; then
            names+=("${line%%$tab*}")
            shown+=("${line/$tab/  -- }")
        fi
    done
    if [[ -n $files ]]; then
        [[ $PREFIX == *@* ]] && compset -P '*@'
        _files
    fi
    (( $#names )) && compadd -l -S '' -d shown -- "${names[@]}"
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _gradus "$@"; else compdef _gradus gradus; fi
