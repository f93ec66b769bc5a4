# bash completion for gradus.  Printed by: gradus help --completions bash
_gradus()
{
    local line word=${COMP_WORDS[COMP_CWORD]} name
    COMPREPLY=()
    compopt -o nosort 2>/dev/null
    while IFS= read -r line; do
        if [[ $line != :files ]]; then
            line=${line%%$'\t'*}
            [[ $line == *= || $line == *'(' ]] && compopt -o nospace 2>/dev/null
            COMPREPLY+=("$line")
            continue
        fi
        [[ $word == = ]] && word=
        name= && [[ $word == *@* ]] && name=${word%%@*}@
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do COMPREPLY+=("$name$line"); done < <(compgen -f -- "${word#"$name"}")
    done < <("${COMP_WORDS[0]/#\~/$HOME}" complete bash "$COMP_CWORD" -- "${COMP_WORDS[@]}" 2>/dev/null)
}
complete -F _gradus gradus
